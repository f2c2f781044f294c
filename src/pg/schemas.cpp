#include "pg/schemas.h"

#include <initializer_list>

extern "C" {
#include "catalog/namespace.h"
#include "utils/lsyscache.h"
}

namespace outbox::pg {

bool IsOurSchema(Oid schema) {
  return OidIsValid(schema) &&
         (schema == get_namespace_oid(kSchema, true) || schema == get_namespace_oid(kInternalSchema, true));
}

bool IsOurSchema(const char* name) {
  return name != nullptr && (strcmp(name, kSchema) == 0 || strcmp(name, kInternalSchema) == 0);
}

Oid FindOurRelation(const char* name) {
  for (const char* const schema : {kInternalSchema, kSchema}) {
    const Oid oid = get_namespace_oid(schema, true);
    const Oid relation = OidIsValid(oid) ? get_relname_relid(name, oid) : InvalidOid;
    if (OidIsValid(relation)) {
      return relation;
    }
  }
  return InvalidOid;
}

}  // namespace outbox::pg
