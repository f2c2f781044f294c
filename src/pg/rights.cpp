#include "pg/rights.h"

#include "pg/schemas.h"
#include "pg/server_versions.h"

extern "C" {
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "storage/sinval.h"
#include "utils/catcache.h"
#include "utils/rls.h"
}

namespace outbox::pg {

namespace {

enum RightColumn : int { kRole = 1, kRoleId, kPatterns, kSystemIdentifier };

constexpr Right kFree = {InvalidOid, false, NIL, true};

// One row.
struct Granted {
  Oid role;  // InvalidOid: there is none
  bool limited;
  List* patterns;
};

void OnRoleChange(Datum granted, CacheId, uint32) {
  reinterpret_cast<CachedTable*>(DatumGetPointer(granted))->Outdate();
}

Oid RoleOf(TupleTableSlot* row) {
  bool null = true;
  const Oid oid = DatumGetObjectId(slot_getattr(row, kRoleId, &null));
  if (!null) {
    const Datum server = slot_getattr(row, kSystemIdentifier, &null);
    if (!null && static_cast<uint64>(DatumGetInt64(server)) == GetSystemIdentifier() &&
        SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(oid))) {
      return oid;
    }
  }
  return get_role_oid(NameStr(*DatumGetName(slot_getattr(row, kRole, &null))), true);
}

}  // namespace

void HearOfRights(FunctionCallInfo fcinfo) {
  const uint64 heard = SharedInvalidMessageCounter;
  AcceptInvalidationMessages();
  if (SharedInvalidMessageCounter == heard || fcinfo->flinfo == nullptr) {
    return;
  }
  const Oid function = fcinfo->flinfo->fn_oid;
  const AclResult may = RightTo(ProcedureRelationId, function, ACL_EXECUTE);
  if (may != ACLCHECK_OK) {
    aclcheck_error(may, OBJECT_FUNCTION, get_func_name(function));
  }
}

bool OwnsObject(Oid catalog, Oid object) {
#if PG_VERSION_NUM >= 160000
  return object_ownercheck(catalog, object, GetUserId());
#else
  switch (catalog) {
    case ProcedureRelationId:
      return pg_proc_ownercheck(object, GetUserId());
    case RelationRelationId:
      return pg_class_ownercheck(object, GetUserId());
    case TypeRelationId:
      return pg_type_ownercheck(object, GetUserId());
    case ForeignDataWrapperRelationId:
      return pg_foreign_data_wrapper_ownercheck(object, GetUserId());
    case ForeignServerRelationId:
      return pg_foreign_server_ownercheck(object, GetUserId());
    case DatabaseRelationId:
      return pg_database_ownercheck(object, GetUserId());
    default:
      return superuser();
  }
#endif
}

namespace {

AclResult RightOf(Oid role, Oid catalog, Oid object, AclMode right) {
#if PG_VERSION_NUM >= 160000
  return object_aclcheck(catalog, object, role, right);
#else
  return catalog == ProcedureRelationId ? pg_proc_aclcheck(object, role, right)
                                        : pg_foreign_server_aclcheck(object, role, right);
#endif
}

}  // namespace

AclResult RightTo(Oid catalog, Oid object, AclMode right) {
  return RightOf(GetUserId(), catalog, object, right);
}

const char* OtherRole() {
  return GetUserId() == GetSessionUserId() ? nullptr : GetUserNameFromId(GetUserId(), false);
}

bool HasRightsOf(Oid role, Oid of) {
  return has_privs_of_role(role, of);
}

namespace {

bool MayReadAll(Oid role, Oid table) {
  return (pg_class_aclcheck(table, role, ACL_SELECT) == ACLCHECK_OK ||
          pg_attribute_aclcheck_all(table, role, ACL_SELECT, ACLMASK_ALL) == ACLCHECK_OK) &&
         check_enable_rls(table, role, true) != RLS_ENABLED;
}

}  // namespace

bool MayReadAll(Oid role, Relation table) {
  bool may = MayReadAll(role, RelationGetRelid(table));
  if (may || !table->rd_rel->relispartition) {
    return may;
  }
  List* ancestors = get_partition_ancestors(RelationGetRelid(table));
  for (int i = 0; i < list_length(ancestors) && !may; i++) {
    may = MayReadAll(role, list_nth_oid(ancestors, i));
  }
  list_free(ancestors);
  return may;
}

bool HasRightsOfOwner(Oid role) {
  if (superuser_arg(role)) {
    return true;
  }
  HeapTuple log = SearchSysCache1(RELOID, ObjectIdGetDatum(FindOurRelation("log")));
  if (!HeapTupleIsValid(log)) {
    return false;
  }
  const Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(log))->relowner;
  ReleaseSysCache(log);
  return has_privs_of_role(role, owner);
}

const char* RoleArgument(const char* name) {
  return quote_literal_cstr(quote_identifier(name));
}

bool MayCall(Oid role, const char* function) {
  bool may = false;
  CatCList* list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(function));
  for (int i = 0; i < list->n_members && !may; i++) {
    const auto* routine = reinterpret_cast<Form_pg_proc>(GETSTRUCT(&list->members[i]->tuple));
    may = IsOurSchema(routine->pronamespace) &&
          RightOf(role, ProcedureRelationId, routine->oid, ACL_EXECUTE) == ACLCHECK_OK;
  }
  ReleaseSysCacheList(list);
  return may;
}

bool MayInsert(Oid role, const char* relation) {
  const Oid oid = FindOurRelation(relation);
  return OidIsValid(oid) && (pg_class_aclcheck(oid, role, ACL_INSERT) == ACLCHECK_OK ||
                             pg_attribute_aclcheck_all(oid, role, ACL_INSERT, ACLMASK_ANY) == ACLCHECK_OK);
}

void* PatternRights::KeepRow(TupleTableSlot* row) {
  auto* granted = static_cast<Granted*>(palloc0(sizeof(Granted)));
  bool null = true;
  granted->role = RoleOf(row);
  const Datum patterns = slot_getattr(row, kPatterns, &null);
  granted->limited = !null;
  granted->patterns = null ? NIL : TextsOf(patterns);
  return granted;
}

Right PatternRights::Find(const List* granted, Oid role) const {
  bool own = false;
  bool any = false;
  bool limited = false;
  bool unlimited = false;
  List* mine = NIL;
  List* inherited = NIL;
  const ListCell* cell = nullptr;
  foreach (cell, granted) {
    const auto* row = static_cast<const Granted*>(lfirst(cell));
    if (row->role == role) {
      own = true;
      limited = limited || row->limited;
      mine = list_concat(mine, row->patterns);
    } else if (OidIsValid(row->role) && has_privs_of_role(role, row->role)) {
      any = true;
      unlimited = unlimited || !row->limited;
      inherited = list_concat(inherited, row->patterns);
    }
  }
  return own ? Right{role, limited, mine, true} : Right{role, any && !unlimited, inherited, any};
}

// The patterns themselves belong to the rows.
void PatternRights::Forget() {
  while (known_ > 0) {
    list_free(rights_[--known_].patterns);
  }
}

const Right* PatternRights::Of(Oid role) {
  if (superuser_arg(role)) {
    return &kFree;
  }
  if (!watching_) {
    const Datum granted = PointerGetDatum(&granted_);
    CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, OnRoleChange, granted);
    CacheRegisterSyscacheCallback(AUTHOID, OnRoleChange, granted);
    watching_ = true;
  }
  const List* granted = granted_.Rows();
  if (role == granted_.owner()) {
    return &kFree;
  }
  if (times_read_ != granted_.times_read()) {
    Forget();
    times_read_ = granted_.times_read();
    limits_ = false;
    const ListCell* cell = nullptr;
    foreach (cell, granted) {
      const auto* row = static_cast<const Granted*>(lfirst(cell));
      limits_ = limits_ || (row->limited && OidIsValid(row->role));
    }
  }
  for (int i = 0; i < known_; i++) {
    if (rights_[i].role == role) {
      return &rights_[i];
    }
  }
  if (known_ == kRoles) {
    Forget();
  }
  Right right = Find(granted, role);
  MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);
  right.patterns = list_copy(right.patterns);
  MemoryContextSwitchTo(caller);
  rights_[known_] = right;
  return &rights_[known_++];
}

bool PatternRights::Allows(const Right* right, const char* name) const {
  if (!right->limited) {
    return true;
  }
  for (int i = 0; i < list_length(right->patterns); i++) {
    if (matches_(static_cast<const char*>(list_nth(right->patterns, i)), name)) {
      return true;
    }
  }
  return false;
}

const char* PatternRights::Listed(const Right* right) {
  StringInfoData listed;
  initStringInfo(&listed);
  for (int i = 0; i < list_length(right->patterns); i++) {
    appendStringInfo(&listed, "%s%s", i > 0 ? ", " : "", static_cast<const char*>(list_nth(right->patterns, i)));
  }
  return listed.data;
}

}  // namespace outbox::pg
