#include "days/table_check.h"

extern "C" {
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "utils/rel.h"
}

namespace outbox::days {

const ColumnRule kLogRules[kLogColumns] = {
    {"created_at", TIMESTAMPTZOID},
    {"id", UUIDOID},
    {"xid", XID8OID},
    {"aggregate_type", TEXTOID},
    {"aggregate_id", TEXTOID},
    {"event_type", TEXTOID},
    {"payload", BYTEAOID},
    {"content_type", TEXTOID},
    {"headers", JSONBOID},
    {"topic", TEXTOID},
    {"deliver_at", TIMESTAMPTZOID},
};

namespace {

const char* NotThatColumn(int number, const ColumnRule& rule) {
  return psprintf("Column %d is not \"%s\" of type %s.", number + 1, rule.name, format_type_be(rule.type));
}

}  // namespace

const char* WrongForReading(Relation table, const ColumnRule* rules, int count) {
  const TupleDesc desc = RelationGetDescr(table);
  if (table->rd_rel->relkind != RELKIND_RELATION || table->rd_rel->relam != HEAP_TABLE_AM_OID) {
    return "It is not a heap table.";
  }
  for (int i = 0; i < count; i++) {
    if (i >= desc->natts) {
      return psprintf("Column \"%s\" is missing.", rules[i].name);
    }
    const Form_pg_attribute column = TupleDescAttr(desc, i);
    if (column->attisdropped || column->atttypid != rules[i].type) {
      return NotThatColumn(i, rules[i]);
    }
  }
  return nullptr;
}

const char* WrongForWriting(Relation table, const ColumnRule* rules, int count, Oid parent) {
  const TupleDesc desc = RelationGetDescr(table);
  const char* wrong = WrongForReading(table, rules, count);
  if (wrong != nullptr) {
    return wrong;
  }
  if (table->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT) {
    return "It is not a permanent table, so its rows would not survive a crash.";
  }
  for (int i = 0; i < count; i++) {
    const Form_pg_attribute column = TupleDescAttr(desc, i);
    if (column->attgenerated != '\0' || strcmp(NameStr(column->attname), rules[i].name) != 0) {
      return NotThatColumn(i, rules[i]);
    }
  }
  if (desc->constr != nullptr && desc->constr->num_check > 0) {
    return psprintf("It has an unexpected check constraint \"%s\".", desc->constr->check[0].ccname);
  }
  if (RelationGetFKeyList(table) != NIL) {
    return "It has an unexpected foreign key.";
  }
  if (OidIsValid(parent) && get_partition_parent(RelationGetRelid(table), true) != parent) {
    return psprintf("It is not a partition of outbox_internal.%s.", get_rel_name(parent));
  }
  return nullptr;
}

}  // namespace outbox::days
