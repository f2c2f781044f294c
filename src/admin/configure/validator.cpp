// Validators of the foreign-data wrappers [P]: options are checked against the lists of outbox when they are written,
// before any client library could see them. Nothing here knows whether it is CREATE or ALTER, nor an option's old
// value, so required options (bootstrap.servers) are checked where a server is first used.
#include <string>
#include <string_view>

#include "admin/lookup/option_list.h"
#include "pg/entry.h"
#include "sink/kind.h"

extern "C" {
#include "access/reloptions.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "utils/lsyscache.h"
}

namespace {

using outbox::admin::NotInUtf8;
using outbox::pg::Guard;
using outbox::pg::UserError;

constexpr std::string_view kSuffix = "_validator";

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

// outbox_internal.<kind>_validator is the validator of wrapper outbox_<kind>: nothing else tells a validator whose
// options it is given, and the wrapper itself may not be there yet.
const outbox::sink::SinkKind& KindOf(Oid function) {
  std::string name = Guard([&] { return get_func_name(function); });
  std::string_view stem = name;
  stem.remove_suffix(stem.ends_with(kSuffix) ? kSuffix.size() : 0);
  const outbox::sink::SinkKind* kind = outbox::sink::FindKind("outbox_" + std::string(stem));
  if (kind == nullptr) {
    throw UserError{
        ERRCODE_FDW_ERROR, "function \"" + name + "\" is the validator of no destination of outbox", "",
        "The extension's own are called outbox_internal.<kind>_validator: " + outbox::sink::WrapperNames() + "."};
  }
  return *kind;
}

Datum Validate(FunctionCallInfo fcinfo) {
  outbox::sink::OptionList options = ReadOptions(PG_GETARG_DATUM(0));
  Oid catalog = PG_GETARG_OID(1);
  if (options.empty()) {
    PG_RETURN_VOID();
  }
  const outbox::sink::SinkKind& kind = KindOf(fcinfo->flinfo->fn_oid);
  if (catalog != ForeignServerRelationId && catalog != UserMappingRelationId) {
    const std::string wrapper = kind.wrapper;
    bool table = catalog != ForeignDataWrapperRelationId;
    throw UserError{ERRCODE_FDW_INVALID_OPTION_NAME,
                    table ? "foreign tables of " + wrapper + " take no options"
                          : "foreign-data wrapper " + wrapper + " takes no options",
                    "",
                    "Set options on a server (CREATE SERVER) or, secrets, on a user mapping (CREATE USER MAPPING)."};
  }
  bool is_superuser = Guard([] { return superuser(); });
  outbox::sink::OptionPlace place =
      catalog == ForeignServerRelationId ? outbox::sink::OptionPlace::kServer : outbox::sink::OptionPlace::kMapping;
  if (const char* name = Guard([&] { return NotInUtf8(untransformRelOptions(PG_GETARG_DATUM(0)), &kind); })) {
    throw UserError{ERRCODE_INVALID_PARAMETER_VALUE,
                    "option \"" + std::string(name) + "\" has a character that UTF-8 does not have", "",
                    "Brokers get texts in UTF-8, whatever the database's encoding is."};
  }
  outbox::sink::OptionProblem problem = outbox::sink::CheckOptions(kind, place, options, is_superuser);
  if (!problem.ok()) {
    const char* s = problem.sqlstate;
    throw UserError{MAKE_SQLSTATE(s[0], s[1], s[2], s[3], s[4]), problem.message, problem.detail, problem.hint};
  }
  PG_RETURN_VOID();
}

}  // namespace

OUTBOX_FUNCTION(outbox_validator) {
  return Validate(fcinfo);
}

// As 0.1 called it, which a database does until ALTER EXTENSION ... UPDATE. No kind joins these.
OUTBOX_FUNCTION(outbox_kafka_validator) {
  return Validate(fcinfo);
}
OUTBOX_FUNCTION(outbox_redis_validator) {
  return Validate(fcinfo);
}
OUTBOX_FUNCTION(outbox_log_validator) {
  return Validate(fcinfo);
}
