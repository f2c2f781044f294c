#include "emit/once.h"

#include "base/fault_point.h"
#include "days/day_table.h"
#include "days/day_table_ddl.h"
#include "days/table_check.h"
#include "emit/check.h"
#include "metrics/emitted.h"
#include "pg/encoding.h"

extern "C" {
#include "access/genam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "common/hashfn.h"
#include "partitioning/partdesc.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"
}

// How two transactions meet. Each looks for the key in all tables and, if it is in none, writes it into today's; both
// happen under a lock on the key's hash that is held for no longer than that, so that it does not matter on which side
// of midnight they are, and that a transaction may take any number of keys. What the look finds under a snapshot that
// sees everybody's rows decides, as in a unique index: of a transaction that is under way, that one is waited for, by
// its id and without the lock (deadlocks are found, lock_timeout and a cancel end it), and then everything is looked at
// again.

namespace outbox::emit {

namespace {

enum KeyColumn : int { kAt, kDigest, kId, kKeyColumns };

constexpr days::ColumnRule kRules[kKeyColumns] = {{"at", TIMESTAMPTZOID}, {"digest", BYTEAOID}, {"id", UUIDOID}};

[[noreturn]] void Refuse(Relation table, const char* detail) {
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("table \"%s\" cannot take the keys of emit()", RelationGetRelationName(table)),
                  errdetail("%s", detail),
                  errhint("It belongs to the extension, whose owner undoes what was changed on it, or drops what was "
                          "added.")));
  pg_unreachable();
}

// `wrong`: nullptr: nothing is.
void Require(Relation table, const char* wrong) {
  if (wrong != nullptr) {
    Refuse(table, wrong);
  }
}

// Whose topic it is counts, as it does for the right to emit there: nobody takes a key of a topic he may not emit to.
Datum DigestOf(const NewEvent* event) {
  const std::string_view key = pg::Utf8({Bytes(event->dedupe_key), Size(event->dedupe_key)});
  const text* type = event->aggregate_type;
  const std::string_view topic = event->topic != nullptr ? std::string_view(Bytes(event->topic), Size(event->topic))
                                                         : pg::Utf8({Bytes(type), Size(type)});
  const std::string_view before = event->topic != nullptr ? "" : kDefaultTopic;
  StringInfoData text;
  initStringInfo(&text);
  text.len = VARHDRSZ;
  for (std::string_view part : {before, topic, std::string_view("\0", 1), key}) {
    appendBinaryStringInfo(&text, part.data(), static_cast<int>(part.size()));
  }
  SET_VARSIZE(text.data, text.len);
  return DirectFunctionCall1(sha256_bytea, PointerGetDatum(text.data));
}

Relation OpenParent() {
  const Oid parent = days::DayTableParent(days::DayTableKind::kEmitKey);
  Relation relation = OidIsValid(parent) ? try_table_open(parent, AccessShareLock) : nullptr;
  if (relation == nullptr) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("dedupe_key needs outbox_internal.emit_key"), errdetail("This database has no such table."),
                    errhint("Where the extension is of an older version its owner makes it by ALTER EXTENSION outbox "
                            "UPDATE.")));
  }
  return relation;
}

// The table of the day, or the spare one: nothing has to be made, and nobody is waited for who makes it. The lock stays
// until the transaction ends, so that no table goes that has an uncommitted key.
Relation OpenTableOf(Relation parent, int32 day) {
  Oid found = days::FindDayTable(days::DayTableKind::kEmitKey, day);
  Relation table = OidIsValid(found) ? try_table_open(found, RowExclusiveLock) : nullptr;
  Oid of = RelationGetRelid(parent);
  if (table == nullptr) {
    of = InvalidOid;
    found = days::SpareKeyTable();
    table = OidIsValid(found) ? try_table_open(found, RowExclusiveLock) : nullptr;
  }
  if (table == nullptr) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("there is no table for a dedupe_key: outbox_internal.emit_key_spare is not there"),
                    errhint("It belongs to the extension, whose owner restores it, or makes the extension again.")));
  }
  Require(table, days::WrongForWriting(table, kRules, kKeyColumns, of));
  return table;
}

// A ready index of the digest alone; InvalidOid: somebody has dropped it, and the table is read through.
Oid IndexOf(Relation table) {
  Oid found = InvalidOid;
  List* list = RelationGetIndexList(table);
  ListCell* cell = nullptr;
  foreach (cell, list) {
    Relation index = index_open(lfirst_oid(cell), AccessShareLock);
    if (index->rd_rel->relam == BTREE_AM_OID && index->rd_index->indisvalid && index->rd_index->indnatts == 1 &&
        index->rd_index->indkey.values[0] == kDigest + 1 && RelationGetIndexPredicate(index) == NIL) {
      found = RelationGetRelid(index);
    }
    index_close(index, AccessShareLock);
  }
  list_free(list);
  return found;
}

struct Found {
  bool taken;           // by an event that is committed, or of this transaction
  TransactionId wait;   // valid: a transaction that has taken it, or gives it up, is under way
  TransactionId taker;  // if taken
  int64 at;
  pg_uuid_t id;
};

bool Look(Relation table, Datum digest, Found* found) {
  if (RelationGetNumberOfBlocks(table) == 0) {
    return false;
  }
  Require(table, days::WrongForReading(table, kRules, kKeyColumns));
  const Oid index = IndexOf(table);
  SnapshotData everybody;
  InitDirtySnapshot(everybody);
  ScanKeyData key;
  ScanKeyInit(&key, kDigest + 1, BTEqualStrategyNumber, F_BYTEAEQ, digest);
  SysScanDesc scan = systable_beginscan(table, index, OidIsValid(index), &everybody, 1, &key);
  HeapTuple row = systable_getnext(scan);
  if (row != nullptr) {
    found->wait = TransactionIdIsValid(everybody.xmin) ? everybody.xmin : everybody.xmax;
    found->taken = !TransactionIdIsValid(found->wait);
    found->taker = HeapTupleHeaderGetXmin(row->t_data);
    bool null = false;
    found->at = DatumGetTimestampTz(heap_getattr(row, kAt + 1, RelationGetDescr(table), &null)) + kPgEpochMicros;
    found->id = *DatumGetUUIDP(heap_getattr(row, kId + 1, RelationGetDescr(table), &null));
  }
  systable_endscan(scan);
  return row != nullptr;
}

// `own` is open already.
bool LookEverywhere(Relation parent, Relation own, Datum digest, Found* found) {
  if (Look(own, digest, found)) {
    return true;
  }
  PartitionDesc days = RelationGetPartitionDesc(parent, true);
  const int count = days->nparts;
  Oid* tables = static_cast<Oid*>(palloc((count + 1) * sizeof(Oid)));
  for (int i = 0; i < count; i++) {
    tables[i] = days->oids[count - 1 - i];  // the newest first
  }
  tables[count] = days::SpareKeyTable();
  bool any = false;
  for (int i = 0; i <= count && !any; i++) {
    Relation table = OidIsValid(tables[i]) && tables[i] != RelationGetRelid(own)
                         ? try_table_open(tables[i], AccessShareLock)
                         : nullptr;
    if (table != nullptr) {
      any = Look(table, digest, found);
      table_close(table, AccessShareLock);
    }
  }
  pfree(tables);
  return any;
}

void Write(Relation table, const NewEvent* event, Datum digest) {
  Datum values[kKeyColumns] = {TimestampTzGetDatum(event->created_at - kPgEpochMicros), digest,
                               UUIDPGetDatum(&event->id)};
  bool nulls[kKeyColumns] = {};
  HeapTuple row = heap_form_tuple(days::FirstColumns(RelationGetDescr(table), kKeyColumns), values, nulls);
  heap_insert(table, row, GetCurrentCommandId(true), 0, nullptr);
  List* list = RelationGetIndexList(table);
  ListCell* cell = nullptr;
  foreach (cell, list) {
    Relation index = index_open(lfirst_oid(cell), RowExclusiveLock);
    IndexInfo* info = BuildIndexInfo(index);
    if (info->ii_ReadyForInserts) {
      Datum of_index[INDEX_MAX_KEYS];
      bool index_nulls[INDEX_MAX_KEYS] = {};
      for (int i = 0; i < info->ii_NumIndexAttrs; i++) {
        const int column = info->ii_IndexAttrNumbers[i] - 1;
        if (column < 0 || column >= kKeyColumns || info->ii_Predicate != NIL || index->rd_index->indisunique ||
            index->rd_index->indisexclusion) {
          Refuse(table, psprintf("Index \"%s\" is not its own.", RelationGetRelationName(index)));
        }
        of_index[i] = values[column];
      }
      index_insert(index, of_index, index_nulls, &row->t_self, table, UNIQUE_CHECK_NO, false, info);
#if PG_VERSION_NUM >= 170000
      index_insert_cleanup(index, info);
#endif
    }
    pfree(info);
    index_close(index, NoLock);
  }
  list_free(list);
  heap_freetuple(row);
}

// The first event is not to be seen by a transaction with one snapshot for all its statements: what it did or read
// otherwise is from before that event. As ON CONFLICT DO NOTHING has it.
void CheckVisible(const Found& found) {
  if (IsolationUsesXactSnapshot() && !TransactionIdIsCurrentTransactionId(found.taker) &&
      XidInMVCCSnapshot(found.taker, GetTransactionSnapshot())) {
    ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                    errmsg("could not serialize access due to a concurrent emit() with the same dedupe_key"),
                    errdetail("Another transaction has emitted under it since this one began."),
                    errhint("The transaction might succeed if retried: emit() returns that event's id then.")));
  }
}

// Who is told of the first event relies on it once he has committed, and writes nothing for which that commit would
// wait. It may be of a transaction whose own has not waited for the disk.
void BeOnDisk(const Found& found) {
  if (synchronous_commit > SYNCHRONOUS_COMMIT_OFF && !TransactionIdIsCurrentTransactionId(found.taker)) {
    XLogFlush(TransactionIdGetCommitLSN(found.taker));
  }
}

}  // namespace

void CheckDedupeKey(const NewEvent* event) {
  if (event->dedupe_key == nullptr) {
    return;
  }
  const size_t size = Size(event->dedupe_key);
  if (size == 0) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("dedupe_key must not be empty"),
                    errdetail("All events with an empty key would be one."),
                    errhint("Pass what names this event and no other, such as 'order-42-paid', or NULL for none.")));
  }
  if (size > kMaxDedupeKey) {
    ereport(ERROR, (errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION), errmsg("dedupe_key is too long"),
                    errdetail("It has %zu bytes; at most %zu are allowed.", size, kMaxDedupeKey),
                    errhint("Pass a digest of it: encode(sha256(convert_to(..., 'UTF8')), 'hex').")));
  }
}

bool TakeKey(NewEvent* event, void (*stamp)(NewEvent*)) {
  const Datum digest = DigestOf(event);
  const auto* bytes = reinterpret_cast<const unsigned char*>(VARDATA_ANY(DatumGetPointer(digest)));
  const uint32 hash = hash_bytes(bytes, static_cast<int>(VARSIZE_ANY_EXHDR(DatumGetPointer(digest))));
  for (;;) {
    Relation parent = OpenParent();
    Relation table = OpenTableOf(parent, days::DayOfMicros(event->created_at));
    LockDatabaseObject(RelationGetRelid(parent), hash, 0, ExclusiveLock);
    OUTBOX_FAULT_POINT("once.locked");
    Found found = {};
    const bool any = LookEverywhere(parent, table, digest, &found);
    if (!any) {
      Write(table, event, digest);
    }
    UnlockDatabaseObject(RelationGetRelid(parent), hash, 0, ExclusiveLock);
    table_close(table, NoLock);
    table_close(parent, AccessShareLock);
    if (!any) {
      OUTBOX_FAULT_POINT("once.taken");
      return true;
    }
    if (found.taken) {
      CheckVisible(found);
      BeOnDisk(found);
      event->id = found.id;
      event->created_at = found.at;
      event->repeated = true;
      metrics::NoteRepeated();
      return false;
    }
    OUTBOX_FAULT_POINT("once.waits");
    XactLockTableWait(found.wait, nullptr, nullptr, XLTW_None);
    stamp(event);
  }
}

}  // namespace outbox::emit
