#include "inbox/consumer.h"

#include "format/pattern.h"
#include "inbox/ring.h"
#include "pg/server_versions.h"

extern "C" {
#include "access/xlog.h"
#include "executor/tuptable.h"
#include "tcop/utility.h"
#include "utils/array.h"
#include "utils/inval.h"
}

namespace outbox::inbox {

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
Oid table = InvalidOid;          // outbox_internal.receive_right when it was read
MemoryContext memory = nullptr;  // of the patterns

void OnRelationChange(Datum, Oid relation) {
  stale = stale || relation == InvalidOid || relation == table;
}

void OnRoleChange(Datum, pg::CacheId, uint32) {
  stale = true;
}

void AddPatterns(Datum consumers, List** patterns) {
  Datum* values = nullptr;
  bool* nulls = nullptr;
  int count = 0;
  deconstruct_array(DatumGetArrayTypeP(consumers), TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &count);
  for (int i = 0; i < count; i++) {
    if (!nulls[i]) {
      *patterns = lappend(*patterns, TextDatumGetCString(values[i]));
    }
  }
}

// The role that a row is about, by its oid where that is one of this server, else by its name, as in a dump.
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
    Datum consumers = slot_getattr(slot, 3, &null);
    if (of == right->role) {
      own = true;
      right->limited = !null;
      if (!null) {
        AddPatterns(consumers, &mine);
      }
    } else if (OidIsValid(of) && has_privs_of_role(right->role, of)) {
      any = true;
      unlimited = unlimited || null;
      if (!null) {
        AddPatterns(consumers, &inherited);
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
    memory = AllocSetContextCreate(TopMemoryContext, "outbox receive rights", ALLOCSET_SMALL_SIZES);
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
  table = InboxTable("receive_right");
  Right right = {role, false, NIL};
  Relation relation = table_open(table, AccessShareLock);
  stale = false;  // a change from here on sets it again
  if (!superuser_arg(role) && relation->rd_rel->relowner != role) {
    MemoryContext caller = MemoryContextSwitchTo(memory);
    ReadRights(relation, &right);
    MemoryContextSwitchTo(caller);
  }
  table_close(relation, AccessShareLock);
  rights[known] = right;
  return &rights[known++];
}

[[noreturn]] void Refuse(const Right* right, const char* consumer) {
  StringInfoData allowed;
  initStringInfo(&allowed);
  for (int i = 0; i < list_length(right->patterns); i++) {
    appendStringInfo(&allowed, "%s%s", i > 0 ? ", " : "", static_cast<char*>(list_nth(right->patterns, i)));
  }
  const char* name = GetUserNameFromId(right->role, false);
  ereport(ERROR,
          (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
           errmsg("role \"%s\" may not receive as consumer \"%s\"", name, consumer),
           errdetail("It may receive as %s.", allowed.data),
           errhint("The owner of the extension may say outbox.grant_receive('%s', consumers => ...) with further "
                   "patterns, or without consumers for all.",
                   name)));
}

}  // namespace

void RefuseNull(bool null, const char* function, const char* what) {
  if (null) {
    ereport(ERROR,
            (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s of outbox.%s() must not be null", what, function),
             errdetail("An answer of NULL would be taken for \"not new\", and the event would be passed over."),
             errhint("Is the header or field missing that it is taken from?")));
  }
}

void CheckName(const text* name, const char* what, int most) {
  const char* bytes = VARDATA_ANY(name);
  const int size = static_cast<int>(VARSIZE_ANY_EXHDR(name));
  bool good = size > 0 && size <= most && bytes[0] != ' ' && bytes[size - 1] != ' ';
  for (int i = 0; good && i < size; i++) {
    good = static_cast<unsigned char>(bytes[i]) >= ' ' && bytes[i] != 0x7F;
  }
  if (!good) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be a name of 1 to %d bytes", what, most),
                    errdetail("It has %d bytes; blanks at its ends and control characters are refused.", size),
                    errhint("Give each consumer a name of its own that it keeps, such as 'billing'.")));
  }
}

void CheckConsumerName(const text* consumer) {
  CheckName(consumer, "consumer", kLongestConsumer);
}

void CheckConsumerRight(const text* consumer) {
  CheckConsumerName(consumer);
  const Right* right = Find(GetUserId());
  if (right->limited) {
    bool allowed = false;
    const char* name = text_to_cstring(consumer);
    ListCell* cell;
    foreach (cell, right->patterns) {
      allowed = allowed || format::GlobMatches(static_cast<char*>(lfirst(cell)), name);
    }
    if (!allowed) {
      Refuse(right, name);
    }
  }
}

void CheckConsumer(const text* consumer, const char* function) {
  CheckConsumerRight(consumer);
  if (RecoveryInProgress()) {
    ereport(ERROR, (errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION), errmsg("cannot receive an event on a standby"),
                    errdetail("outbox.%s() writes a mark, in the transaction that handles the event.", function),
                    errhint("Send it to the primary.")));
  }
  PreventCommandIfReadOnly(psprintf("outbox.%s()", function));
}

}  // namespace outbox::inbox
