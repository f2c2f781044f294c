// Validators of the foreign-data wrappers [P]: options are checked against our own lists when they are written, before
// any client library could see them. Nothing here knows whether it is CREATE or ALTER, nor an option's old value, so
// what must be there at all (bootstrap.servers) is checked where a server is first used.
#include <string>
#include <vector>

#include "pg/entry.h"
#include "sink/options.h"

extern "C" {
#include "access/reloptions.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
}

namespace {

using outbox::pg::Guard;
using outbox::pg::UserError;

outbox::sink::OptionList ReadOptions(Datum array) {
  outbox::sink::OptionList options;
  Guard([&] {
    ListCell* cell = nullptr;
    foreach (cell, untransformRelOptions(array)) {
      DefElem* option = static_cast<DefElem*>(lfirst(cell));
      const char* value = defGetString(option);
      options.emplace_back(option->defname, value);
    }
  });
  return options;
}

Datum Validate(outbox::sink::SinkKind kind, const char* wrapper, FunctionCallInfo fcinfo) {
  outbox::sink::OptionList options = ReadOptions(PG_GETARG_DATUM(0));
  Oid catalog = PG_GETARG_OID(1);
  if (options.empty()) {
    PG_RETURN_VOID();
  }
  if (catalog != ForeignServerRelationId && catalog != UserMappingRelationId) {
    bool table = catalog != ForeignDataWrapperRelationId;
    throw UserError{ERRCODE_FDW_INVALID_OPTION_NAME,
                    table ? "foreign tables of " + std::string(wrapper) + " take no options"
                          : "foreign-data wrapper " + std::string(wrapper) + " takes no options",
                    "",
                    "Set options on a server (CREATE SERVER) or, secrets, on a user mapping (CREATE USER MAPPING)."};
  }
  bool is_superuser = Guard([] { return superuser(); });
  outbox::sink::OptionPlace place =
      catalog == ForeignServerRelationId ? outbox::sink::OptionPlace::kServer : outbox::sink::OptionPlace::kMapping;
  outbox::sink::OptionProblem problem = outbox::sink::CheckOptions(kind, place, options, is_superuser);
  if (!problem.ok()) {
    const char* s = problem.sqlstate;
    throw UserError{MAKE_SQLSTATE(s[0], s[1], s[2], s[3], s[4]), problem.message, problem.detail, problem.hint};
  }
  PG_RETURN_VOID();
}

}  // namespace

OUTBOX_FUNCTION(outbox_kafka_validator) {
  return Validate(outbox::sink::SinkKind::kKafka, "outbox_kafka", fcinfo);
}
OUTBOX_FUNCTION(outbox_redis_validator) {
  return Validate(outbox::sink::SinkKind::kRedis, "outbox_redis", fcinfo);
}
OUTBOX_FUNCTION(outbox_log_validator) {
  return Validate(outbox::sink::SinkKind::kLog, "outbox_log", fcinfo);
}
