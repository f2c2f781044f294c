#include "emit/topic_rights.h"

#include "format/pattern.h"
#include "pg/entry.h"
#include "pg/schemas.h"
#include "pg/server_versions.h"

extern "C" {
#include "access/table.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "storage/sinval.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
}

namespace outbox::emit {

namespace {

constexpr int kRoles = 8;  // SECURITY DEFINER functions switch between a few

struct Right {
  Oid role;
  bool limited;
  List* patterns;  // of char*, in the server's encoding
};

Right rights[kRoles];
int known = 0;
bool stale = true;
Oid table = InvalidOid;          // outbox_internal.emit_right when it was read; InvalidOid: there was none
MemoryContext memory = nullptr;  // of the patterns

void OnRelationChange(Datum, Oid relation) {
  stale = stale || relation == InvalidOid || relation == table || table == InvalidOid;
}

void OnRoleChange(Datum, pg::CacheId, uint32) {
  stale = true;
}

void AddPatterns(Datum topics, List** patterns) {
  Datum* values = nullptr;
  bool* nulls = nullptr;
  int count = 0;
  deconstruct_array(DatumGetArrayTypeP(topics), TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &count);
  for (int i = 0; i < count; i++) {
    if (!nulls[i]) {
      *patterns = lappend(*patterns, TextDatumGetCString(values[i]));
    }
  }
}

// The role that a row of outbox_internal.emit_right is about, as outbox_internal.role_of() has it; InvalidOid: there is
// none.
Oid RoleOf(TupleTableSlot* row) {
  bool null = true;
  const Oid oid = DatumGetObjectId(slot_getattr(row, 2, &null));
  if (!null) {
    const Datum server = slot_getattr(row, 4, &null);
    if (!null && static_cast<uint64>(DatumGetInt64(server)) == GetSystemIdentifier() &&
        SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(oid))) {
      return oid;
    }
  }
  return get_role_oid(NameStr(*DatumGetName(slot_getattr(row, 1, &null))), true);
}

// Reads under the newest snapshot, not the transaction's: a right revoked meanwhile is revoked.
void ReadRights(Relation relation, Right* right) {
  Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
  TableScanDesc scan = pg::BeginScan(relation, snapshot);
  TupleTableSlot* slot = table_slot_create(relation, nullptr);
  bool own = false;
  bool any = false;
  bool unlimited = false;
  List* mine = NIL;
  List* inherited = NIL;
  while (table_scan_getnextslot(scan, ForwardScanDirection, slot)) {
    const Oid of = RoleOf(slot);
    bool null = true;
    Datum topics = slot_getattr(slot, 3, &null);
    if (of == right->role) {
      own = true;
      right->limited = right->limited || !null;
      if (!null) {
        AddPatterns(topics, &mine);
      }
    } else if (!own && OidIsValid(of) && has_privs_of_role(right->role, of)) {
      any = true;
      unlimited = unlimited || null;
      if (!null) {
        AddPatterns(topics, &inherited);
      }
    }
  }
  ExecDropSingleTupleTableSlot(slot);
  table_endscan(scan);
  UnregisterSnapshot(snapshot);
  if (!own) {
    right->limited = any && !unlimited;
  }
  right->patterns = own ? mine : inherited;
}

const Right* Find(Oid role) {
  if (memory == nullptr) {
    memory = AllocSetContextCreate(TopMemoryContext, "outbox topic rights", ALLOCSET_SMALL_SIZES);
    CacheRegisterRelcacheCallback(OnRelationChange, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, OnRoleChange, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(AUTHOID, OnRoleChange, static_cast<Datum>(0));
  }
  for (int i = 0; !stale && i < known; i++) {
    if (rights[i].role == role) {
      return &rights[i];
    }
  }
  if (stale || known == kRoles) {
    known = 0;
    MemoryContextReset(memory);
  }
  table = pg::FindOurRelation("emit_right");
  stale = false;  // a change from here on sets it again
  Right right = {role, false, NIL};
  Relation relation = OidIsValid(table) && !superuser_arg(role) ? try_table_open(table, AccessShareLock) : nullptr;
  if (relation != nullptr) {
    if (relation->rd_rel->relowner != role) {
      MemoryContext caller = MemoryContextSwitchTo(memory);
      ReadRights(relation, &right);
      MemoryContextSwitchTo(caller);
    }
    table_close(relation, AccessShareLock);
  }
  rights[known] = right;
  return &rights[known++];
}

[[noreturn]] void Refuse(const Right* right, const char* topic) {
  StringInfoData allowed;
  initStringInfo(&allowed);
  for (int i = 0; i < list_length(right->patterns); i++) {
    appendStringInfo(&allowed, "%s%s", i > 0 ? ", " : "", static_cast<char*>(list_nth(right->patterns, i)));
  }
  const char* name = GetUserNameFromId(right->role, false);
  ereport(
      ERROR,
      (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("role \"%s\" may not emit to topic \"%s\"", name, topic),
       errdetail("It may emit to %s. An event without a topic of its own counts as outbox.event.<aggregate type>.",
                 allowed.data),
       errhint(
           "The owner of the extension may say outbox.grant_emit('%s', topics => ...) with further patterns, or "
           "without topics for all. What it said last outlives DROP OWNED and REVOKE: outbox.revoke_emit() takes it "
           "back.",
           name)));
  pg_unreachable();
}

}  // namespace

void HearOfRights(FunctionCallInfo fcinfo) {
  const uint64 heard = SharedInvalidMessageCounter;
  AcceptInvalidationMessages();
  if (SharedInvalidMessageCounter == heard || fcinfo->flinfo == nullptr) {
    return;
  }
  const Oid function = fcinfo->flinfo->fn_oid;
#if PG_VERSION_NUM >= 160000
  const AclResult may = object_aclcheck(ProcedureRelationId, function, GetUserId(), ACL_EXECUTE);
#else
  const AclResult may = pg_proc_aclcheck(function, GetUserId(), ACL_EXECUTE);
#endif
  if (may != ACLCHECK_OK) {
    aclcheck_error(may, OBJECT_FUNCTION, get_func_name(function));
  }
}

void CheckTopicRight(const NewEvent* event) {
  const Right* right = Find(OidIsValid(event->emitter) ? event->emitter : GetUserId());
  if (!right->limited) {
    return;
  }
  const char* topic = event->topic != nullptr ? text_to_cstring(event->topic)
                                              : psprintf("outbox.event.%s", text_to_cstring(event->aggregate_type));
  ListCell* cell;
  foreach (cell, right->patterns) {
    if (format::GlobMatches(static_cast<char*>(lfirst(cell)), topic)) {
      return;
    }
  }
  Refuse(right, topic);
}

}  // namespace outbox::emit

// After each change of outbox_internal.emit_right: sessions read it again.
OUTBOX_FUNCTION(outbox_emit_rights_changed) {
  const Oid changed =
      RelationGetRelid(outbox::pg::TriggerOf(fcinfo, "outbox_internal.emit_rights_changed()")->tg_relation);
  outbox::pg::Guard([changed] { CacheInvalidateRelcacheByRelid(changed); });
  return Datum{0};
}
