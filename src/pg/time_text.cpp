#include "pg/time_text.h"

extern "C" {
#include "miscadmin.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"
}

namespace outbox::pg {

const char* UtcText(TimestampTz time) {
  char text[MAXDATELEN + 1];
  struct pg_tm utc = {};
  fsec_t fraction = 0;
  if (TIMESTAMP_NOT_FINITE(time)) {
    EncodeSpecialTimestamp(time, text);
  } else if (timestamp2tm(time, nullptr, &utc, &fraction, nullptr, nullptr) == 0) {
    utc.tm_isdst = 0;  // -1 would leave the zone out
    EncodeDateTime(&utc, fraction, true, 0, nullptr, USE_ISO_DATES, text);
  } else {
    ereport(ERROR, (errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE), errmsg("timestamp out of range")));
  }
  return pstrdup(text);
}

}  // namespace outbox::pg
