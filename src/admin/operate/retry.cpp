// outbox.retry(): a parked event is tried at once, as it is or edited [P].
#include "admin/common/operation.h"
#include "admin/operate/parked_rows.h"
#include "emit/arguments.h"
#include "emit/check.h"
#include "pg/entry.h"
#include "pg/transaction_end.h"

extern "C" {
#include "utils/fmgrprotos.h"
}

namespace {

using namespace outbox::admin;
using outbox::pg::Guard;
using outbox::pg::UserError;

// What replaces the event's own values; NULL: keep.
struct Edit {
  Cell payload;  // bytea
  Cell json;     // not NULL: the payload was given as JSON
  Cell headers;
  Cell topic;
  Jsonb* payload_jsonb = nullptr;
  bytea* payload_bytes = nullptr;
  Jsonb* headers_jsonb = nullptr;
  text* topic_text = nullptr;

  bool any() const { return payload || headers || topic; }
};

Cell BytesText(bytea* bytes) {
  return Cell(
      Guard([&]() -> const char* { return DatumGetCString(DirectFunctionCall1(byteaout, PointerGetDatum(bytes))); }));
}

Edit ReadEdit(FunctionCallInfo fcinfo) {
  Edit edit;
  if (!PG_ARGISNULL(3) && !PG_ARGISNULL(6)) {
    throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "payload and payload_bytes exclude each other",
                    "An event has one payload.", "Pass payload for JSON, payload_bytes for everything else."};
  }
  Guard([&] {
    edit.headers_jsonb = outbox::emit::JsonbArgument(fcinfo, 4);
    edit.topic_text = outbox::emit::TextArgument(fcinfo, 5);
    edit.payload_jsonb = outbox::emit::JsonbArgument(fcinfo, 3);
    if (edit.payload_jsonb != nullptr) {
      outbox::emit::CheckJsonPayload(edit.payload_jsonb);
      edit.payload_bytes = outbox::emit::JsonbBytes(edit.payload_jsonb);
    } else if (!PG_ARGISNULL(6)) {
      edit.payload_bytes = PG_GETARG_BYTEA_PP(6);
    }
  });
  edit.headers = TextArgument(fcinfo, 4);
  edit.topic = TextArgument(fcinfo, 5);
  if (edit.payload_bytes != nullptr) {
    edit.payload = BytesText(edit.payload_bytes);
    edit.json = edit.payload_jsonb != nullptr ? Cell("json") : Cell();
  }
  return edit;
}

// Checks the edited event as emit would.
void CheckEdit(const ParkedRow& row, const Edit& edit) {
  if (row.tombstone && edit.payload) {
    throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "a tombstone has no payload",
                    "Event " + row.id + " tells consumers to delete what they hold under its key.",
                    "Skip it and emit another event, if that was not meant."};
  }
  if (edit.payload && !edit.json && !row.content_type) {
    // The event says that it is JSON.
    try {
      RunSql(Access::kRead, "SELECT convert_from($1::bytea, 'UTF8')::json", {edit.payload});
    } catch (const outbox::pg::PgError& error) {
      throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "payload_bytes is not JSON in UTF-8",
                      "Event " + row.id + " was emitted as JSON: " + error.what() + ".",
                      "Pass the JSON as payload, or bytes that are JSON."};
    }
  }
  const char* type = row.aggregate_type.c_str();
  const char* key = row.aggregate_id ? row.aggregate_id->c_str() : nullptr;
  const char* event_type = row.event_type.c_str();
  const char* content_type = row.content_type && !edit.json ? row.content_type->c_str() : nullptr;
  const char* route = row.route.c_str();
  Guard([&] {
    outbox::emit::NewEvent event = {};
    event.aggregate_type = cstring_to_text(type);
    event.aggregate_id = key != nullptr ? cstring_to_text(key) : nullptr;
    event.event_type = cstring_to_text(event_type);
    event.payload = edit.payload_bytes;
    event.tombstone = edit.payload_bytes == nullptr;
    event.content_type = content_type != nullptr ? cstring_to_text(content_type) : nullptr;
    event.headers = edit.headers_jsonb;
    event.topic = edit.topic_text;
    if (event.tombstone && event.aggregate_id == nullptr) {
      event.aggregate_id = cstring_to_text("-");  // payload stays as it is: no tombstone
    }
    outbox::emit::CheckEvent(&event, route);
  });
}

// Returns what was changed, for the audit: values, but of payload and headers only size and hash.
std::string ApplyEdit(const ParkedRow& row, const Edit& edit) {
  return RunSql(Access::kWrite,
                "UPDATE outbox_internal.parked p SET "
                "payload = CASE WHEN $5 IS NULL THEN p.payload ELSE $5::bytea END, "
                "content_type = CASE WHEN $6 IS NULL THEN p.content_type END, "
                "headers = CASE WHEN $7 IS NULL THEN p.headers ELSE nullif("
                " CASE WHEN jsonb_typeof($7::jsonb) = 'object' THEN $7::jsonb ELSE '{}' END || "
                " CASE WHEN p.replay > 0 THEN jsonb_build_object('outbox-replay', p.replay::text) ELSE '{}' END, '{}') "
                "END, "
                "own_topic = coalesce($8, p.own_topic) "
                "FROM outbox_internal.parked o WHERE o.route_id = p.route_id AND o.created_at = p.created_at AND o.id "
                "= p.id "
                "AND o.replay = p.replay AND p.route_id = $1::bigint AND p.id = $3::uuid AND p.replay = $4::bigint "
                "AND p.created_at = timestamptz 'epoch' + $2::bigint * interval '1 microsecond' "
                "RETURNING jsonb_strip_nulls(jsonb_build_object("
                "'payload', CASE WHEN $5 IS NOT NULL THEN jsonb_build_object("
                " 'old_bytes', octet_length(o.payload), 'old_sha256', encode(sha256(o.payload), 'hex'),"
                " 'new_bytes', octet_length(p.payload), 'new_sha256', encode(sha256(p.payload), 'hex')) END,"
                "'headers', CASE WHEN $7 IS NOT NULL THEN jsonb_build_object("
                " 'old_sha256', encode(sha256(convert_to(o.headers::text, 'UTF8')), 'hex'),"
                " 'new_sha256', encode(sha256(convert_to(p.headers::text, 'UTF8')), 'hex')) END,"
                "'topic', CASE WHEN $8 IS NOT NULL THEN jsonb_build_object('old', coalesce(o.own_topic, o.topic), "
                "'new', $8)"
                " END))",
                {Cell(std::to_string(row.route_id)), Cell(std::to_string(row.created_at)), Cell(row.id),
                 Cell(std::to_string(row.replay)), edit.payload, edit.json, edit.headers, edit.topic})
      .at(0)[0]
      .value();
}

// A blocked event is sent when what it waits behind has gone: only the first one of a key may be released. A copy that
// a replay made of an event is released with the event itself.
void CheckMayGo(const ParkedRow& row) {
  if (row.state != "blocked") {
    return;
  }
  std::vector<Row> rows = RunSql(
      Access::kWrite,
      "SELECT z.reason, h.id, h.state FROM outbox.route r "
      "LEFT JOIN LATERAL outbox_internal.key_pause(r.id, $4, $5) z ON true "
      "LEFT JOIN LATERAL outbox_internal.key_head(r.id, $2::bigint, r.on_failure = 'block', "
      " timestamptz 'epoch' + $3::bigint * interval '1 microsecond', $6::bigint, $7::uuid) h ON h.id <> $7::uuid "
      "WHERE r.id = $1::bigint",
      {Cell(std::to_string(row.route_id)), OrderKeyCell(row.order_key), Cell(std::to_string(row.created_at)),
       Cell(row.aggregate_type), row.aggregate_id, Cell(std::to_string(row.replay)), Cell(row.id)},
      outbox::admin::Plan::kByKey);
  if (rows.at(0)[0]) {
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "the key of event " + row.id + " is paused",
                    "The reason given is: " + *rows[0][0], "outbox.resume() lets the key go."};
  }
  if (rows[0][1]) {
    throw UserError{
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "event " + row.id + " waits behind event " + *rows[0][1],
        "Events of one key are delivered in order, and that one is " + rows[0][2].value() + ".",
        "Call outbox.retry() or outbox.skip() for that event; outbox.blocked_key shows who waits for whom."};
  }
}

// An event that waits on one route does not keep it from being sent on another: of which it waits on, a NOTICE says so.
// It is an error if it may be sent on none.
void KeepThoseThatMayGo(std::vector<ParkedRow>* rows, bool edited) {
  std::vector<ParkedRow> going;
  std::vector<std::pair<std::string, UserError>> staying;
  for (const ParkedRow& row : *rows) {
    try {
      CheckMayGo(row);
      going.push_back(row);
    } catch (const UserError& refusal) {
      staying.emplace_back(row.route, refusal);
    }
  }
  if (going.empty()) {
    throw staying.at(0).second;
  }
  for (const auto& [route, refusal] : staying) {
    Notice(refusal.message + (edited ? ", and stays as it was on route \"" : ", on route \"") + route + "\"",
           refusal.detail,
           refusal.hint + (edited ? " Then retry() with the same changes edits it on that route, too." : ""));
  }
  rows->swap(going);
}

}  // namespace

OUTBOX_FUNCTION(outbox_retry) {
  RequireWritable("outbox.retry()");
  Cell id = TextArgument(fcinfo, 0);
  Cell route = TextArgument(fcinfo, 1);
  Cell reason = CheckReason(TextArgument(fcinfo, 2), false);
  Edit edit = ReadEdit(fcinfo);
  std::vector<ParkedRow> rows = LockParked(id, route, Wanted::kSent);
  Resolver resolver;
  KeepThoseThatMayGo(&rows, edit.any());
  for (ParkedRow& row : rows) {
    JsonObject detail = AuditedRow(row);
    if (edit.any()) {
      CheckEdit(row, edit);
      detail.AddRaw("edited", ApplyEdit(row, edit));
      row.own_topic = edit.topic ? edit.topic : row.own_topic;
    }
    WriteAudit("retry", row.route, id, detail, reason);
  }
  outbox::pg::NoteParkedChange();
  std::vector<ParkedRow> before = rows;
  for (ParkedRow& row : rows) {
    resolver.Resolve(&row);
  }
  int64 waiting = MakeDue(rows);
  PromoteKeysOf(before);
  if (waiting > 0) {
    Notice("event " + *id + " waits for its key", "The key is paused, or an earlier event of it has not gone yet.",
           "outbox.blocked_key shows what is paused, and who waits for whom.");
  }
  PG_RETURN_INT64(static_cast<int64>(rows.size()));
}
