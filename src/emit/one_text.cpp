#include "emit/one_text.h"

#include "pg/statement_settings.h"

extern "C" {
#include "catalog/pg_type.h"
#include "utils/lsyscache.h"
}

namespace outbox::emit {

namespace {

enum class Follows : unsigned char { kNothing, kSettings, kSearchPath };

Follows WhatTextFollows(Oid type) {
  switch (type) {
    case BOOLOID:
    case BPCHAROID:
    case INT2OID:
    case INT4OID:
    case INT8OID:
    case JSONOID:
    case JSONBOID:
    case NAMEOID:
    case NUMERICOID:
    case OIDOID:
    case TEXTOID:
    case UUIDOID:
    case VARCHAROID:
      return Follows::kNothing;
    case REGCLASSOID:
    case REGCOLLATIONOID:
    case REGCONFIGOID:
    case REGDICTIONARYOID:
    case REGNAMESPACEOID:
    case REGOPEROID:
    case REGOPERATOROID:
    case REGPROCOID:
    case REGPROCEDUREOID:
    case REGROLEOID:
    case REGTYPEOID:
      return Follows::kSearchPath;
    default:
      return Follows::kSettings;
  }
}

constexpr pg::PinnedSetting kTextSettings[] = {
    {"TimeZone", "UTC"},
    {"DateStyle", "ISO"},
    {"IntervalStyle", "postgres"},
    {"extra_float_digits", "1"},
    {"bytea_output", "hex"},
    {"lc_monetary", "C"},
    // kSearchPath. An output function is of C, so it runs nothing that is found by it.
    {"search_path", pg::kSearchPath},
    {"quote_all_identifiers", "off"},
};
constexpr size_t kUsual = 6;

}  // namespace

int PinText(Oid type) {
  const Follows follows = WhatTextFollows(getBaseType(type));
  const std::span<const pg::PinnedSetting> all(kTextSettings);
  switch (follows) {
    case Follows::kNothing:
      return 0;
    case Follows::kSettings:
      return pg::Pin(all.first(kUsual));
    case Follows::kSearchPath:
      return pg::Pin(all);
  }
  return 0;
}

}  // namespace outbox::emit
