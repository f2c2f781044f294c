#include "admin/lookup/log_estimate.h"

#include <algorithm>

#include "admin/lookup/try_lock.h"
#include "days/day_table_ddl.h"
#include "days/log_table.h"
#include "pg/schemas.h"
#include "pg/subtransaction.h"
#include "pg/wall.h"

extern "C" {
#include "access/relscan.h"
#include "catalog/namespace.h"
#include "catalog/pg_inherits.h"
#include "executor/tuptable.h"
#include "storage/bufmgr.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
}

namespace outbox::admin {

namespace {

constexpr int64 kDay = USECS_PER_DAY;

// Days since 1970; PG_INT32_MIN: its name is no day's.
int DayOf(Oid oid) {
  const char* name = get_rel_name(oid);
  int32 day = PG_INT32_MIN;
  return name != nullptr && days::DayOfTableName(days::DayTableKind::kLog, name, &day) ? day : PG_INT32_MIN;
}

// What is remembered of a table while its heap has as many blocks.
struct Known {
  Oid oid;
  uint32 blocks;
  TimestampTz at;  // when its size was asked for
  int64 bytes;
  uint64 least_xid;  // 0: not looked for yet
};

// Day tables of a month have neighbouring oids, all of the same remainder by some power of two.
Known* Remember(Oid oid, uint32 blocks) {
  constexpr uint32 kRoom = 256;
  constexpr uint32 kNear = 8;
  static Known all[kRoom];
  const uint32 home = oid * 2654435769U >> 24;  // Knuth's multiplicative hash
  Known* known = &all[home];
  for (uint32 i = 0; i < kNear; i++) {
    Known* near = &all[(home + i) % kRoom];
    if (near->oid == oid || near->oid == InvalidOid) {
      known = near;
      break;
    }
  }
  if (known->oid != oid || known->blocks != blocks) {
    *known = {};
    known->oid = oid;
    known->blocks = blocks;
  }
  return known;
}

// A dozen calls of stat(), for each of the days. Of one that nobody writes to the size is asked for again every ten
// minutes, for what VACUUM does beside the heap.
int64 SizeOf(Known* known, bool quiet) {
  constexpr TimestampTz kGood = 600 * USECS_PER_SEC;
  const TimestampTz now = GetCurrentTimestamp();
  if (!quiet || known->at == 0 || now < known->at || now - known->at > kGood) {
    known->bytes = DatumGetInt64(DirectFunctionCall1(pg_total_relation_size, ObjectIdGetDatum(known->oid)));
    known->at = now;
  }
  return known->bytes;
}

void Look(LogEstimate::Table* table, int today) {
  const int day = DayOf(table->oid);
  table->day_from_today = day == PG_INT32_MIN ? day : day - today;
  days::LogTable opened;
  if (!LockToLook(table->oid) || !days::OpenLogTable(table->oid, &opened)) {
    return;
  }
  table->readable = true;
  table->blocks = RelationGetNumberOfBlocks(opened.heap);
  table->indexed = opened.index != nullptr;
  if (!days::LargestXid(opened, &table->largest_xid)) {
    table->largest_xid = 0;
  }
  // A row is in the table before it is in the index, and VACUUM takes it out of the index first: what the index has and
  // an empty file has not is lost.
  if (table->blocks == 0 && table->largest_xid != 0 && RelationGetNumberOfBlocks(opened.heap) == 0) {
    ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
                    errmsg("the file of table \"%s\" is empty, and its index is not", get_rel_name(table->oid))));
  }
  Known* known = Remember(table->oid, table->blocks);
  const bool over = day != PG_INT32_MIN && day < today - 1;
  table->bytes = SizeOf(known, over || table->blocks == 0);
  if (over && known->least_xid == 0 && !days::LeastXid(opened, &known->least_xid)) {
    known->least_xid = 0;
  }
  table->least_xid = over && table->indexed ? known->least_xid : 0;
  days::CloseLogTable(opened);
}

// Of a table whose file cannot be read: its index says up to where it goes.
uint64 LargestOfIndex(Oid oid) {
  days::LogTable opened;
  uint64 largest = PG_UINT64_MAX;
  if (days::OpenLogTable(oid, &opened)) {
    if (opened.index != nullptr && !days::LargestXid(opened, &largest)) {
      largest = 0;
    }
    days::CloseLogTable(opened);
  }
  return largest;
}

}  // namespace

int64 LogEstimate::bytes() const {
  int64 sum = 0;
  for (int i = 0; i < count; i++) {
    sum += tables[i].bytes;
  }
  return sum;
}

int LogEstimate::days_ahead() const {
  int ahead = 0;
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < count && !more; i++) {
      more = tables[i].day_from_today == ahead + 1;
    }
    ahead += more ? 1 : 0;
  }
  return ahead;
}

bool LogEstimate::whole() const {
  for (int i = 0; i < count; i++) {
    if (!tables[i].readable) {
      return false;
    }
  }
  return true;
}

uint64 LogEstimate::damaged_to() const {
  uint64 to = 0;
  for (int i = 0; i < count; i++) {
    to = tables[i].damaged ? Max(to, tables[i].largest_xid) : to;
  }
  return to;
}

namespace {

// Its tables, which nobody has looked into yet.
LogEstimate* ListLog() {
  const Oid log = pg::FindOurRelation("log");
  const Oid spare = pg::FindOurRelation("log_spare");
  List* leaves = OidIsValid(log) ? find_inheritance_children(log, NoLock) : NIL;
  if (OidIsValid(spare)) {
    leaves = lappend_oid(leaves, spare);
  }
  auto* estimate = static_cast<LogEstimate*>(palloc0(sizeof(LogEstimate)));
  estimate->tables = static_cast<LogEstimate::Table*>(palloc0(sizeof(LogEstimate::Table) * (list_length(leaves) + 1)));
  estimate->today = static_cast<int>(pg::BelievedWall() / kDay);
  ListCell* cell = nullptr;
  foreach (cell, leaves) {
    estimate->tables[estimate->count++].oid = lfirst_oid(cell);
  }
  return estimate;
}

void SortByDay(LogEstimate* estimate) {
  std::sort(estimate->tables, estimate->tables + estimate->count,
            [](const auto& a, const auto& b) { return a.day_from_today < b.day_from_today; });
}

}  // namespace

LogEstimate* EstimateLog() {
  LogEstimate* estimate = ListLog();
  for (int i = 0; i < estimate->count; i++) {
    Look(&estimate->tables[i], estimate->today);
  }
  SortByDay(estimate);
  return estimate;
}

const LogEstimate* EstimateReadableLog() {
  LogEstimate* estimate = nullptr;
  if (pg::TryPart(pg::IsUnreadable, [&] { estimate = pg::Guard([] { return EstimateLog(); }); }).ok()) {
    return estimate;
  }
  estimate = pg::Guard([] { return ListLog(); });
  for (int i = 0; i < estimate->count; i++) {
    LogEstimate::Table* table = &estimate->tables[i];
    if (!pg::TryPart(pg::IsUnreadable, [&] { pg::Guard([&] { Look(table, estimate->today); }); }).ok()) {
      table->readable = false;
      table->damaged = true;
      table->indexed = false;
      table->blocks = 0;
      uint64 largest = PG_UINT64_MAX;
      static_cast<void>(
          pg::TryPart(pg::IsUnreadable, [&] { pg::Guard([&] { largest = LargestOfIndex(table->oid); }); }));
      table->largest_xid = largest;
    }
  }
  SortByDay(estimate);
  return estimate;
}

LogBegin BeginInLog(const LogEstimate::Table& table, uint64 xid) {
  LogBegin begin = {};
  days::LogTable opened;
  if (!table.readable || !table.indexed || table.largest_xid < xid || !days::OpenLogTable(table.oid, &opened)) {
    return begin;
  }
  if (opened.index != nullptr) {
    IndexScanDesc scan = days::BeginXidScan(opened, 1);
    ScanKeyData key;
    ScanKeyInit(&key, 1, BTGreaterEqualStrategyNumber, F_XID8GE,
                FullTransactionIdGetDatum(FullTransactionIdFromU64(xid)));
    index_rescan(scan, &key, 1, nullptr, 0);
    TupleTableSlot* slot = table_slot_create(opened.heap, nullptr);
    if (index_getnext_slot(scan, ForwardScanDirection, slot)) {
      bool null = false;
      begin.found = true;
      begin.block = Min(ItemPointerGetBlockNumber(&slot->tts_tid), table.blocks - 1);
      begin.created_at =
          DatumGetTimestampTz(slot_getattr(slot, days::LogColumn::kCreatedAt + 1, &null)) + kPgEpochMicros;
    }
    ExecDropSingleTupleTableSlot(slot);
    index_endscan(scan);
  }
  days::CloseLogTable(opened);
  return begin;
}

}  // namespace outbox::admin
