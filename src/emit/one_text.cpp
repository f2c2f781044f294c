#include "emit/one_text.h"

#include "pg/statement_settings.h"

extern "C" {
#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"
}

namespace outbox::emit {

namespace {

// What a text follows, as a set: that of a composite follows what those of its columns do.
constexpr unsigned kNothing = 0;
constexpr unsigned kSettings = 1;
constexpr unsigned kCurrency = 2;
constexpr unsigned kSearchPath = 4;

unsigned WhatTextFollows(Oid type);

unsigned WhatTextsFollow(TupleDesc desc) {
  unsigned follows = kNothing;
  for (int i = 0; i < desc->natts; i++) {
    if (!TupleDescAttr(desc, i)->attisdropped) {
      follows |= WhatTextFollows(TupleDescAttr(desc, i)->atttypid);
    }
  }
  return follows;
}

// A type that may be made of others.
unsigned WhatTextOfPartsFollows(Oid type) {
  check_stack_depth();
  switch (get_typtype(type)) {
    case TYPTYPE_COMPOSITE: {
      TupleDesc desc = lookup_rowtype_tupdesc(type, -1);
      const unsigned follows = WhatTextsFollow(desc);
      ReleaseTupleDesc(desc);
      return follows;
    }
    case TYPTYPE_DOMAIN:
      return WhatTextFollows(getBaseType(type));
    case TYPTYPE_MULTIRANGE:
      return WhatTextFollows(get_multirange_range(type));
    case TYPTYPE_RANGE:
      return WhatTextFollows(get_range_subtype(type));
    default:
      return OidIsValid(get_element_type(type)) ? WhatTextFollows(get_element_type(type)) : kSettings;
  }
}

unsigned WhatTextFollows(Oid type) {
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
      return kNothing;
    case BYTEAOID:
    case DATEOID:
    case FLOAT4OID:
    case FLOAT8OID:
    case INTERVALOID:
    case TIMEOID:
    case TIMESTAMPOID:
    case TIMESTAMPTZOID:
    case TIMETZOID:
      return kSettings;
    case MONEYOID:
      return kCurrency;
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
      return kSearchPath;
    default:
      return WhatTextOfPartsFollows(type);
  }
}

constexpr pg::PinnedSetting kTextSettings[] = {
    {"TimeZone", "UTC"},
    {"DateStyle", "ISO"},
    {"IntervalStyle", "postgres"},
    {"extra_float_digits", "1"},
    {"bytea_output", "hex"},
    // kCurrency
    {"lc_monetary", "C"},
    // kSearchPath. An output function is of C, so it runs nothing that is found by it.
    {"search_path", pg::kSearchPath},
    {"quote_all_identifiers", "off"},
};
constexpr size_t kUsual = 5;
constexpr size_t kWithCurrency = 6;

}  // namespace

int PinText(Oid type) {
  const unsigned follows = WhatTextFollows(type);
  if (follows == kNothing) {
    return 0;
  }
  const std::span<const pg::PinnedSetting> all(kTextSettings);
  return pg::Pin((follows & kSearchPath) != 0 ? all
                 : (follows & kCurrency) != 0 ? all.first(kWithCurrency)
                                              : all.first(kUsual));
}

text* CastToText(Oid type, Datum value) {
  switch (type) {
    case TEXTOID:
    case VARCHAROID:
      return DatumGetTextPP(value);
    case BPCHAROID:
      return DatumGetTextPP(DirectFunctionCall1(rtrim1, value));
    case BOOLOID:
      return DatumGetTextPP(DirectFunctionCall1(booltext, value));
    case INETOID:
      return DatumGetTextPP(DirectFunctionCall1(network_show, value));
    default: {
      Oid output = InvalidOid;
      bool varlena = false;
      getTypeOutputInfo(type, &output, &varlena);
      return cstring_to_text(OidOutputFunctionCall(output, value));
    }
  }
}

bool HoldsMoney(TupleDesc desc) {
  return (WhatTextsFollow(desc) & kCurrency) != 0;
}

}  // namespace outbox::emit
