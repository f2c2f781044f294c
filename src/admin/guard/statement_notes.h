// What triggers of rows note for the trigger that ends their statement [P]. (A transition table would be filled for
// workers, too.) Statements nest, where one calls a function that runs another, and one may concern several tables, so
// notes are of the table that a statement names, and the newest of them count. An error may have left notes of a
// statement that was never ended: they are of another transaction, or of a savepoint that is over. Plain.
//
// From triggers of rows to the AFTER trigger of one table. What BEFORE triggers of several tables tell each other is
// this_statement.h's, and lies in the executor's memory, which AFTER triggers do not find.
#pragma once

#include "pg/transaction.h"

namespace outbox::admin {

template <typename Notes>
class StatementNotes {
 public:
  // Those of the statement under way on that table; nullptr: there are none.
  Notes* Current(Oid table) {
    Entry* entry = *Find(table);
    return entry == nullptr ? nullptr : &entry->notes;
  }
  // Begins them if there are none.
  Notes* Begun(Oid table) {
    Entry* entry = *Find(table);
    return entry == nullptr ? Begin(table) : &entry->notes;
  }
  Notes* Begin(Oid table) {
    Entry** newest = Newest();
    auto* entry = static_cast<Entry*>(MemoryContextAlloc(TopTransactionContext, sizeof(Entry)));
    *entry = {Notes{}, table, GetCurrentSubTransactionId(), *newest};
    *newest = entry;
    return &entry->notes;
  }
  // Ends them. All zero: there were none.
  Notes Take(Oid table) {
    Entry** entry = Find(table);
    if (*entry == nullptr) {
      return Notes{};
    }
    const Notes taken = (*entry)->notes;
    Remove(entry);
    return taken;
  }

 private:
  struct Entry {
    Notes notes;
    Oid table;
    SubTransactionId subtransaction;
    Entry* older;
  };

  static void Remove(Entry** entry) {
    Entry* removed = *entry;
    *entry = removed->older;
    pfree(removed);
  }
  // Where the list begins. Savepoints are numbered upwards, so those above the current one are over.
  Entry** Newest() {
    if (transaction_ != pg::CurrentTransaction()) {
      newest_ = nullptr;  // its memory went with its transaction
      transaction_ = pg::CurrentTransaction();
    }
    while (newest_ != nullptr && newest_->subtransaction > GetCurrentSubTransactionId()) {
      Remove(&newest_);
    }
    return &newest_;
  }
  Entry** Find(Oid table) {
    const SubTransactionId here = GetCurrentSubTransactionId();
    Entry** entry = Newest();
    while (*entry != nullptr && ((*entry)->table != table || (*entry)->subtransaction != here)) {
      entry = &(*entry)->older;
    }
    return entry;
  }

  LocalTransactionId transaction_ = InvalidLocalTransactionId;
  Entry* newest_ = nullptr;
};

}  // namespace outbox::admin
