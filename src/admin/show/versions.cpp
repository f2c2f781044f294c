// outbox.version() [P].
#include "base/version.h"

#include "admin/common/query.h"
#include "pg/entry.h"

using namespace outbox::admin;

OUTBOX_FUNCTION(outbox_version) {
  std::vector<Row> rows = RunSql(Access::kRead, "SELECT extversion FROM pg_extension WHERE extname = 'outbox'");
  std::string text =
      std::string("library ") + outbox::kVersion + ", extension " + (rows.empty() ? "?" : rows[0][0].value_or("?"));
  const char* copy = text.c_str();
  return outbox::pg::Guard([&] { return CStringGetTextDatum(copy); });
}
