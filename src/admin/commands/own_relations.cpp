#include "admin/commands/own_relations.h"

#include "admin/guard/loss.h"
#include "pg/guard.h"
#include "pg/rights.h"
#include "pg/schemas.h"
#include "pg/settings.h"
#include "pg/transaction.h"

extern "C" {
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/extension.h"
}

namespace outbox::admin {

using pg::Guard;
using pg::UserError;

bool OwnsRelation(Oid relation) {
  return pg::OwnsObject(RelationRelationId, relation);
}

bool IsMember(Oid catalog, Oid object) {
  const Oid extension = get_extension_oid("outbox", true);
  return OidIsValid(extension) && OidIsValid(object) && getExtensionOfObject(catalog, object) == extension;
}

bool InSchemaInUse(Oid relation) {
  return OidIsValid(relation) && !creating_extension && pg::IsOurSchema(get_rel_namespace(relation)) &&
         OidIsValid(get_extension_oid("outbox", true));
}

bool IsOwnTable(Oid relation) {
  const char kind = InSchemaInUse(relation) ? get_rel_relkind(relation) : '\0';
  if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE && kind != RELKIND_FOREIGN_TABLE) {
    return false;
  }
  return IsMember(RelationRelationId, WholeOf(relation));
}

bool IsOwnView(Oid relation) {
  return InSchemaInUse(relation) && get_rel_relkind(relation) == RELKIND_VIEW && IsMember(RelationRelationId, relation);
}

Oid FindRelation(const RangeVar* relation) {
  return relation == nullptr ? InvalidOid : Guard([relation] { return RangeVarGetRelid(relation, NoLock, true); });
}

Oid FindAltered(const RangeVar* relation) {
  const Oid found = FindRelation(relation);
  const bool by_hand =
      OidIsValid(found) && Guard([found] { return !pg::InOwnStatement() && IsOwnTable(found) && OwnsRelation(found); });
  return by_hand ? found : InvalidOid;
}

void RefuseShape(Oid table, const std::string& words, const std::string& instead) {
  RefuseByHand(words + " " + NameOf(table),
               "The table belongs to extension outbox: emit() and the workers count on what it is, and a dump of "
               "another one could not be restored.",
               instead);
}

}  // namespace outbox::admin
