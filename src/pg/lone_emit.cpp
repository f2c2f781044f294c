#include "pg/lone_emit.h"

#include "pg/schemas.h"
#include "pg/settings.h"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "pgstat.h"
#include "utils/lsyscache.h"
// Its inline functions count a volatile up and down, which C++20 deprecates.
#pragma GCC diagnostic push
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wdeprecated-volatile"
#else
#pragma GCC diagnostic ignored "-Wvolatile"
#endif
#include "utils/pgstat_internal.h"
#pragma GCC diagnostic pop
}

namespace outbox::pg {

namespace {

// Emitting writes there, and what is kept out of line follows its table. The mark of what was received is a change that
// an event may tell of; what adopt() emits it takes out of the table in which it lay.
bool IsOfOutbox(Oid relation) {
  const Oid schema = get_rel_namespace(relation);
  const char* name = IsOurSchema(schema) ? get_rel_name(relation) : nullptr;
  return schema == PG_TOAST_NAMESPACE ||
         (name != nullptr && strncmp(name, "inbox", strlen("inbox")) != 0 && strcmp(name, "foreign_event") != 0);
}

// Whether what the transaction keeps is rows of the outbox and nothing else.
bool ChangedOutboxAlone() {
  bool outbox = false;
  for (const PgStat_TableXactStatus* table = pgstat_get_xact_stack_level(GetCurrentTransactionNestLevel())->first;
       table != nullptr; table = table->next) {
    if (!table->truncdropped && table->tuples_inserted == 0 && table->tuples_updated == 0 &&
        table->tuples_deleted == 0) {
      continue;
    }
#if PG_VERSION_NUM >= 160000
    const Oid relation = table->parent->id;
#else
    const Oid relation = table->parent->t_id;
#endif
    if (!IsOfOutbox(relation)) {
      return false;
    }
    outbox = true;
  }
  return outbox;  // else they were not counted: track_counts was off meanwhile
}

}  // namespace

bool JudgeLoneEmit() {
  if (settings.lone_emit == static_cast<int>(LoneEmit::kAllow) || !pgstat_track_counts || !ChangedOutboxAlone()) {
    return false;  // where it is meant it is not counted, either
  }
  static bool warned = false;
  const auto wanted = static_cast<LoneEmit>(settings.lone_emit);
  if (wanted == LoneEmit::kWarn && warned) {
    return true;
  }
  warned = wanted == LoneEmit::kWarn;
  ereport(
      wanted == LoneEmit::kRefuse ? ERROR : WARNING,
      (errcode(ERRCODE_INVALID_TRANSACTION_STATE), errmsg("the transaction emitted an event and changed nothing else"),
       errdetail("If the event tells of a change that was committed before it, a crash in between loses the event."),
       errhint("Emit in the transaction that makes the change: BEGIN ... COMMIT; drivers in autocommit make a "
               "transaction of each statement. For events that stand alone: SET outbox.lone_emit = allow.")));
  return true;
}

}  // namespace outbox::pg
