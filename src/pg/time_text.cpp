#include "pg/time_text.h"

extern "C" {
#include "miscadmin.h"  // USE_ISO_DATES
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
  } else {
    // It fails of no time that there can be; as a time without a zone, which would be left out.
    (void)timestamp2tm(time, nullptr, &utc, &fraction, nullptr, nullptr);
    utc.tm_isdst = 0;
    EncodeDateTime(&utc, fraction, true, 0, nullptr, USE_ISO_DATES, text);
  }
  return pstrdup(text);
}

}  // namespace outbox::pg
