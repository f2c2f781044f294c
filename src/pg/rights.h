// Rights of roles on names [P]: to which topics a role may emit, as which consumers it may receive. Plain code.
//
// A table of the extension has a row for each role that was granted the right: role (name), role_id (oid), patterns
// (text[]; NULL: all names), system_identifier (bigint), in this order. A row is of the role with its oid, where that
// is an oid of this server and the role is there: so a renamed role keeps its limit. Else it is of the role with its
// name: there was none when a dump brought the row, or the oid is another server's. (outbox_internal.right_rows() says
// the same.) The role's own row decides; without one, those of the roles it is a member of: free if there is none or
// one of them has no limit, else what all of them allow together. Superusers and the extension's owner are free.
#pragma once

#include <string_view>

#include "pg/cached_table.h"

namespace outbox::pg {

// At the beginning of a function that roles are granted. A statement that only calls a function opens no table, and
// does not hear of what was revoked while its transaction is open, as an INSERT would: so it is heard of here, and if
// anything was, the caller's right to the function is asked once more (42501). Where nothing was changed this costs a
// comparison.
void HearOfRights(FunctionCallInfo fcinfo);

// Whether the current role may do with an object what its owner may. `catalog`: that the object is in
// (RelationRelationId and its like).
bool OwnsObject(Oid catalog, Oid object);
// Its right to a routine or a foreign server.
AclResult RightTo(Oid catalog, Oid object, AclMode right);
// The current role, where it is not the session's (SECURITY DEFINER, SET ROLE): what rows of outbox.audit say as "role"
// beside who it was. Ask before AsOwner(). nullptr: it is the session's. palloc'd.
const char* OtherRole();
// Whether a role has the rights of another: it is the same, a member that inherits them, or a superuser.
bool HasRightsOf(Oid role, Oid of);
// Those of the extension's owner.
bool HasRightsOfOwner(Oid role);
// Whether it may read all rows and columns of a table: of itself, or of one that it is a partition of.
bool MayReadAll(Oid role, Relation table);
// Whether that role may call one of our functions of this name, or insert into that relation of ours, or into columns
// of it.
bool MayCall(Oid role, const char* function);
bool MayInsert(Oid role, const char* relation);

// As it is written where an argument of type regrole is asked for: a string that holds an identifier. palloc'd.
const char* RoleArgument(const char* name);

// What a role may.
struct Right {
  Oid role;
  bool limited;
  List* patterns;  // of char*, in the server's encoding; where limited
  bool said;       // by a row, or it is a superuser or the owner; else it is free, if it has the right at all
};

// A global variable, one for each table of rights.
class PatternRights {
 public:
  // Whether a name fits a pattern: what patterns are is no matter of this folder.
  using Matches = bool (*)(std::string_view pattern, std::string_view name);

  constexpr PatternRights(const char* table, Matches matches)
      : granted_(table, KeepRow, IfLocked::kWait), matches_(matches) {}
  PatternRights(const PatternRights&) = delete;
  PatternRights& operator=(const PatternRights&) = delete;

  // From a small cache, which changes of rights, roles and memberships clear. Holds until the next call.
  const Right* Of(Oid role);
  bool Allows(const Right* right, const char* name) const;
  // Whether any role that there is is limited, as of the last Of().
  bool limits() const { return limits_; }
  // Its patterns for a message: "shop.*, billing.*".
  static const char* Listed(const Right* right);

 private:
  static constexpr int kRoles = 8;  // SECURITY DEFINER functions switch between a few

  static void* KeepRow(TupleTableSlot* row);
  void Forget();
  Right Find(const List* granted, Oid role) const;

  CachedTable granted_;
  const Matches matches_;
  bool watching_ = false;
  uint64 times_read_ = 0;  // of granted_, that `known_` are made of
  bool limits_ = false;
  Right rights_[kRoles] = {};
  int known_ = 0;
};

}  // namespace outbox::pg
