// What a session remembers of a small table of the extension, until the table changes [P]. Plain code.
//
// Rows are read under the newest snapshot, not the transaction's: what others have committed counts from then on, what
// this transaction has written counts at once, and what it takes back counts no more. A trigger on the table
// (outbox_internal.read_again()) tells all sessions of each change. An error half way leaves what was known before.
//
// Nobody waits for a list of what is good to know; only a right is waited for: see IfLocked.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "executor/tuptable.h"
}

namespace outbox::pg {

// For what is kept: the texts of an array that are not NULL, of char* in the server's encoding.
List* TextsOf(Datum array);

// While somebody has locked the table so that it cannot be read, and it has changed or has never been read:
enum class IfLocked {
  kWait,  // for him: without an answer there is no going on
  kGoOn,  // with what was known before, if anything was: an emit waits for nobody. The next one asks again
};

// A global variable, one for each use of a table.
class CachedTable {
 public:
  // What is kept of a row, in the current memory context; nullptr: the row does not matter. May raise.
  using KeepRow = void* (*)(TupleTableSlot* row);

  // `name`: of a table that each version of the extension has in one of its schemas, or has not: then it has no rows.
  constexpr CachedTable(const char* name, KeepRow keep, IfLocked if_locked)
      : name_(name), keep_(keep), if_locked_(if_locked) {}
  CachedTable(const CachedTable&) = delete;
  CachedTable& operator=(const CachedTable&) = delete;

  // What was kept of its rows, as committed by now: pointers, which hold until the next call. Where there is nothing
  // and nothing has changed, this costs a comparison.
  const List* Rows() {
    if (rows_ != NIL) {
      Hear();
    }
    if (changes_ != changes_read_) {
      Read();
    }
    return rows_;
  }
  // The table's owner when it was read; InvalidOid: there was none.
  Oid owner() const { return owner_; }
  // How often it was read. What a caller has made of Rows() holds as long as this is the same.
  uint64 times_read() const { return times_read_; }
  // Has it read again: something else has changed that rows are about.
  void Outdate() { changes_++; }

 private:
  static void OnRelationChange(Datum, Oid relation);
  // In a transaction that has its locks already nothing else takes changes of others in.
  static void Hear();
  void Watch();
  void Read();

  static CachedTable* watched;  // all of this session

  const char* const name_;
  const KeepRow keep_;
  const IfLocked if_locked_;
  CachedTable* next_ = nullptr;
  bool watching_ = false;
  uint64 changes_ = 1;  // heard of
  uint64 changes_read_ = 0;
  uint64 times_read_ = 0;
  Oid table_ = InvalidOid;  // when it was read
  Oid owner_ = InvalidOid;
  List* rows_ = NIL;
  MemoryContext memory_ = nullptr;  // of the rows
};

}  // namespace outbox::pg
