#include "admin/commands/object_commands.h"

#include <string>

#include "admin/commands/own_relations.h"
#include "admin/commands/table_commands.h"
#include "admin/common/query.h"
#include "admin/guard/by_hand.h"
#include "admin/guard/loss.h"
#include "pg/entry.h"
#include "pg/rights.h"
#include "pg/schemas.h"
#include "pg/transaction.h"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "foreign/foreign.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "parser/parse_type.h"
#include "utils/catcache.h"
}

namespace outbox::admin {

namespace {

using pg::Guard;

// A member of the extension, by hand, and by a role that the command would let. Plain.
bool IsAltered(const ObjectAddress& object) {
  return !creating_extension && !pg::InOwnStatement() && IsMember(object.classId, object.objectId) &&
         pg::OwnsObject(object.classId, object.objectId);
}

// Plain. A name of what is not there, or of several things, is refused by the command itself.
ObjectAddress FindObject(ObjectType type, Node* name) {
  ObjectAddress found = InvalidObjectAddress;
  switch (type) {
    case OBJECT_FUNCTION:
    case OBJECT_PROCEDURE:
    case OBJECT_ROUTINE:
    case OBJECT_AGGREGATE:
      found.objectId = LookupFuncWithArgs(type, castNode(ObjectWithArgs, name), true);
      found.classId = ProcedureRelationId;
      break;
    case OBJECT_TYPE:
    case OBJECT_DOMAIN:  // some commands have the name alone
      found.objectId = LookupTypeNameOid(
          nullptr, IsA(name, List) ? makeTypeNameFromNameList(castNode(List, name)) : castNode(TypeName, name), true);
      found.classId = TypeRelationId;
      break;
    case OBJECT_FDW:
      found.objectId = get_foreign_data_wrapper_oid(strVal(name), true);
      found.classId = ForeignDataWrapperRelationId;
      break;
    case OBJECT_FOREIGN_SERVER:
      found.objectId = get_foreign_server_oid(strVal(name), true);
      found.classId = ForeignServerRelationId;
      break;
    default:
      break;
  }
  return found;
}

void Refuse(const std::string& words, const std::string& what) {
  RefuseByHand(words + " " + what,
               "It belongs to extension outbox, whose emitters, triggers, views and workers count on it as it is.",
               "Make one of your own, in a schema of your own.");
}

void CheckObject(ObjectType type, Node* name, const char* words) {
  const ObjectAddress object = Guard([type, name] { return FindObject(type, name); });
  if (Guard([&object] { return IsAltered(object); })) {
    Refuse(words, Guard([&object]() -> const char* { return getObjectDescription(&object, false); }));
  }
}

// A view of the extension; InvalidOid: it is none, or a command of another extension. Plain.
Oid FindView(const RangeVar* name) {
  const Oid relation = name == nullptr ? InvalidOid : RangeVarGetRelid(name, NoLock, true);
  const ObjectAddress object = {RelationRelationId, relation, 0};
  return OidIsValid(relation) && get_rel_relkind(relation) == RELKIND_VIEW && IsAltered(object) ? relation : InvalidOid;
}

void CheckView(const RangeVar* name, const char* words) {
  const Oid view = Guard([name] { return FindView(name); });
  if (OidIsValid(view)) {
    Refuse(words, "view " + NameOf(view));
  }
}

// A function of that name that is the extension's, and the current role's to replace; InvalidOid: there is none. Plain.
Oid FindOwnFunction(List* names) {
  char* schema = nullptr;
  char* name = nullptr;
  DeconstructQualifiedName(names, &schema, &name);
  List* path = schema == nullptr ? fetch_search_path(false) : NIL;
  const Oid into = schema != nullptr ? get_namespace_oid(schema, true) : path != NIL ? linitial_oid(path) : InvalidOid;
  if (!pg::IsOurSchema(into)) {
    return InvalidOid;
  }
  Oid found = InvalidOid;
  CatCList* functions = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
  for (int i = 0; i < functions->n_members && !OidIsValid(found); i++) {
    const auto* function = reinterpret_cast<Form_pg_proc>(GETSTRUCT(&functions->members[i]->tuple));
    if (function->pronamespace == into && IsAltered({ProcedureRelationId, function->oid, 0})) {
      found = function->oid;
    }
  }
  ReleaseSysCacheList(functions);
  return found;
}

}  // namespace

void CheckRenameObject(Node* statement) {
  const auto* rename = reinterpret_cast<RenameStmt*>(statement);
  switch (rename->renameType) {
    case OBJECT_VIEW:
    case OBJECT_TABLE:
    case OBJECT_INDEX:  // which a view may be called there, too
    case OBJECT_COLUMN:
      CheckView(rename->relation, rename->renameType == OBJECT_COLUMN ? "rename a column of" : "rename");
      break;
    default:
      CheckObject(rename->renameType, rename->object, "rename");
      break;
  }
}

void CheckMoveObject(Node* statement) {
  const auto* move = reinterpret_cast<AlterObjectSchemaStmt*>(statement);
  if (move->objectType == OBJECT_VIEW || move->objectType == OBJECT_TABLE) {
    CheckView(move->relation, "change the schema of");
  } else {
    CheckObject(move->objectType, move->object, "change the schema of");
  }
}

void CheckAlterFunction(Node* statement) {
  const auto* alter = reinterpret_cast<AlterFunctionStmt*>(statement);
  CheckObject(alter->objtype, reinterpret_cast<Node*>(alter->func), "alter");
}

void CheckFunctionDependency(Node* statement) {
  const auto* depends = reinterpret_cast<AlterObjectDependsStmt*>(statement);
  if (!depends->remove) {
    CheckObject(depends->objectType, depends->object, "add a dependency to");
  }
}

void CheckAlterView(Node* statement) {
  const auto* alter = reinterpret_cast<AlterTableStmt*>(statement);
  for (int i = 0; i < list_length(alter->cmds); i++) {
    switch (static_cast<AlterTableCmd*>(list_nth(alter->cmds, i))->subtype) {
      case AT_ColumnDefault:
        CheckView(alter->relation, "change a column's default in");
        break;
      case AT_SetRelOptions:
      case AT_ResetRelOptions:
        CheckView(alter->relation, "change options of");
        break;
      default:
        break;
    }
  }
}

void CheckAlterDomain(Node* statement) {
  const auto* alter = reinterpret_cast<AlterDomainStmt*>(statement);
  CheckObject(OBJECT_DOMAIN, reinterpret_cast<Node*>(alter->typeName), "alter");
}

bool ReplacesFunction(Node* statement) {
  return reinterpret_cast<CreateFunctionStmt*>(statement)->replace && !creating_extension;
}

void CheckReplaceFunction(Node* statement) {
  const auto* create = reinterpret_cast<CreateFunctionStmt*>(statement);
  const Oid found = Guard([create] { return FindOwnFunction(create->funcname); });
  if (!OidIsValid(found)) {
    return;
  }
  const std::string name = Guard([found]() -> const char* {
    return psprintf("%s.%s", get_namespace_name(get_func_namespace(found)), get_func_name(found));
  });
  Refuse("replace", "function " + name);
}

bool ReplacesView(Node* statement) {
  return reinterpret_cast<ViewStmt*>(statement)->replace && !creating_extension;
}

void CheckReplaceView(Node* statement) {
  CheckView(reinterpret_cast<ViewStmt*>(statement)->view, "replace");
}

void CheckCreateRule(Node* statement) {
  const RangeVar* relation = reinterpret_cast<RuleStmt*>(statement)->relation;
  CheckView(relation, "create a rule on");
  CheckRuleOnTable(relation);
}

void CheckAlterWrapper(Node* statement) {
  const auto* alter = reinterpret_cast<AlterFdwStmt*>(statement);
  if (alter->func_options == NIL) {
    return;  // options are its validator's
  }
  const char* name = alter->fdwname;
  const ObjectAddress object = {ForeignDataWrapperRelationId,
                                Guard([name] { return get_foreign_data_wrapper_oid(name, true); }), 0};
  if (Guard([&object] { return IsAltered(object); })) {
    Refuse("alter", std::string("foreign-data wrapper ") + name);
  }
}

bool HasParent(Node* statement) {
  return reinterpret_cast<CreateStmt*>(statement)->inhRelations != NIL;
}

void CheckCreateTable(Node* statement) {
  const auto* create = reinterpret_cast<CreateStmt*>(statement);
  for (int i = 0; i < list_length(create->inhRelations); i++) {
    const auto* parent = static_cast<const RangeVar*>(list_nth(create->inhRelations, i));
    if (create->partbound != nullptr) {
      CheckAttach(parent, "create a partition of");
    } else {
      CheckInherited(parent);
    }
  }
}

}  // namespace outbox::admin
