// outbox.skip(), outbox.discard() and outbox.parked_content() [P].
#include "admin/common/operation.h"
#include "admin/common/text_encoding.h"
#include "admin/operate/parked_rows.h"
#include "pg/entry.h"
#include "pg/transaction_end.h"

extern "C" {
#include "mb/pg_wchar.h"
}

namespace {

using namespace outbox::admin;
using outbox::pg::UserError;

int64 GiveUp(FunctionCallInfo fcinfo, const char* action, const char* outcome, bool only_dead) {
  Cell id = TextArgument(fcinfo, 0);
  Cell reason = CheckReason(TextArgument(fcinfo, 1), true);
  std::vector<ParkedRow> rows = LockParked(id, TextArgument(fcinfo, 2), Wanted::kGivenUp);
  if (only_dead) {
    // A replay of it may be parked beside it, and other routes may still be trying.
    ParkedRow first = rows[0];
    std::erase_if(rows, [](const ParkedRow& row) { return row.state != "dead"; });
    if (rows.empty()) {
      throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "event " + *id + " is not a dead letter",
                      "On route \"" + first.route + "\" it is " + first.state + ".",
                      "outbox.skip() gives an event up whatever its state."};
    }
  }
  for (const ParkedRow& row : rows) {
    WriteAudit(action, row.route, id, AuditedRow(row), reason);
  }
  outbox::pg::NoteParkedChange();
  Remove(rows, outcome);
  PromoteKeysOf(rows);
  return static_cast<int64>(rows.size());
}

}  // namespace

OUTBOX_FUNCTION(outbox_skip) {
  RequireWritable("outbox.skip()");
  PG_RETURN_INT64(GiveUp(fcinfo, "skip", "skipped", false));
}

OUTBOX_FUNCTION(outbox_discard) {
  RequireWritable("outbox.discard()");
  PG_RETURN_INT64(GiveUp(fcinfo, "discard", "discarded", true));
}

OUTBOX_FUNCTION(outbox_parked_content) {
  const Cell id = TextArgument(fcinfo, 0);
  const Cell route = TextArgument(fcinfo, 1);
  RequireId(id);
  if (route && RunSql(Access::kRead, "SELECT FROM outbox.route WHERE name = $1", {route}).empty()) {
    throw NoSuchRoute(*route);
  }
  ResultSet result(fcinfo);
  result.Begin();
  // Valid UTF-8 is shown as text: payloads of emit() and emit_text(), and any other that happens to be.
  for (Row& row :
       RunSql(Access::kRead,
              "SELECT r.name, (extract(epoch FROM p.created_at) * 1000000)::bigint, p.replay, p.state, p.payload, "
              "NULL, p.content_type, p.headers, "
              "encode(p.payload, 'hex') FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id "
              "WHERE p.id = $1::uuid AND ($2 IS NULL OR r.name = $2) ORDER BY r.name, p.created_at, p.replay",
              {id, route})) {
    row[1] = UnixMicrosCell(Number(row[1]));
    if (row[8]) {
      std::string bytes;
      for (size_t i = 0; i + 1 < row[8]->size(); i += 2) {
        bytes += static_cast<char>(std::stoi(row[8]->substr(i, 2), nullptr, 16));
      }
      int size = static_cast<int>(bytes.size());
      if (bytes.find('\0') == std::string::npos && pg_encoding_verifymbstr(PG_UTF8, bytes.data(), size) == size) {
        try {
          row[5] = FromUtf8(bytes);
        } catch (const outbox::pg::PgError&) {
          row[5] = Cell();  // it has no form in the database's encoding
        }
      }
    }
    row.pop_back();
    result.Add(row);
  }
  return static_cast<Datum>(0);
}
