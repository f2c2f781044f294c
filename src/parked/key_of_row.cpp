// outbox_internal.order_key() [P]: the key of an event as lanes compute it, for statements that have only its row.
#include "base/order_key.h"

#include "pg/encoding.h"
#include "pg/entry.h"
#include "pg/key_secret.h"

namespace outbox::parked {
namespace {

// In UTF-8, as lanes have it. Plain.
std::string_view TextOf(FunctionCallInfo fcinfo, int argument) {
  const text* value = PG_GETARG_TEXT_PP(argument);
  return pg::Utf8({VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)});
}

uint64_t KeyOfArguments(FunctionCallInfo fcinfo) {
  if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2)) {
    return 0;
  }
  pg::LoadKeySecret();
  return OrderKey(TextOf(fcinfo, 0), TextOf(fcinfo, 1), TextOf(fcinfo, 2));
}

}  // namespace
}  // namespace outbox::parked

OUTBOX_FUNCTION(outbox_order_key) {
  const uint64_t key = outbox::pg::Guard([fcinfo] { return outbox::parked::KeyOfArguments(fcinfo); });
  if (key == 0) {
    PG_RETURN_NULL();
  }
  PG_RETURN_INT64(static_cast<int64>(key));
}
