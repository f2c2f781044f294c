#include "log/loss/rewind_words.h"

#include "base/utf8.h"
#include "log/progress/place_arguments.h"
#include "pg/encoding.h"
#include "pg/sql.h"

namespace outbox::log {

using namespace pg::sql;

namespace {

// When what is sent again, or missing, was delivered: after that; "": all.
const std::string& DeliveredAfter(const Finding& finding) {
  return !finding.all ? finding.kept_at : finding.beyond.border_at;
}

std::string Events(int64_t count) {
  return std::to_string(count) + (count == 1 ? " event that was" : " events that were");
}

}  // namespace

std::string TellBeyond(const Finding& finding) {
  return "what was delivered " + (finding.beyond.after.empty() ? "" : "after " + finding.beyond.after + " and ") +
         "before " + finding.beyond.border_at + ", when its lanes began anew";
}

std::string Reason(const Finding& finding, bool rewound) {
  if (!rewound) {
    return finding.why_not;
  }
  return finding.beyond.any
             ? "the Redis server has lost what it had acknowledged; " + TellBeyond(finding) + OUTBOX_NOT_SENT
             : "the Redis server has lost what it had acknowledged";
}

std::string Describe(const LaneId& lane, const Finding& finding, bool rewound) {
  std::string text = "the Redis server has lost what it had acknowledged: stream \"" +
                     LegibleUtf8(finding.loss.stream) + "\" had " + finding.loss.acknowledged +
                     ", the last id there is " + finding.loss.survived + "; lane " + std::to_string(lane.lane) +
                     " of route \"" + finding.route + "\" ";
  if (!rewound) {
    text += "sends nothing again: " + finding.why_not;
  } else if (finding.wanted) {
    const std::string& after = DeliveredAfter(finding);
    text += after.empty() ? "sends again all that it has delivered and the log still has"
                          : "sends again what it delivered after " + after;
    if (finding.elsewhere) {
      text += ", here or elsewhere";
    }
  } else {
    text += "goes on where it is";
  }
  if (finding.parked.again > 0) {
    text += "; " + Events(finding.parked.again) + " delivered from outbox_internal.parked go again";
  }
  if (finding.parked.missing > 0) {
    text += "; " + Events(finding.parked.missing) + " delivered from outbox_internal.parked" OUTBOX_NOT_SENT;
  }
  return rewound && finding.beyond.any ? text + "; " + TellBeyond(finding) + OUTBOX_NOT_SENT : text;
}

void WriteAudit(const LaneId& lane, std::string_view server_run, const Finding& finding, bool rewound,
                const std::string& reason) {
  static Statement put = {
      "INSERT INTO outbox.audit (who, action, route, detail, reason)"
      " SELECT CURRENT_USER, $9, r.name, jsonb_build_object('lane', $2, 'server', r.server, 'run', $3,"
      " 'survived', $4, 'stream', $5, 'acknowledged', $6, 'delivered_after', $7)"
      " || CASE WHEN $11 IS NULL THEN '{}' ELSE jsonb_build_object('missing_after', $10, 'missing_before', $11) END"
      " || CASE WHEN $12 > 0 THEN jsonb_build_object('parked_events', $12) ELSE '{}' END"
      " || CASE WHEN $13 > 0 THEN jsonb_build_object('parked_events_missing', $13) ELSE '{}' END, $8"
      " FROM outbox.route r WHERE r.id = $1",
      13,
      {INT8OID, INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT8OID,
       INT8OID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(lane.route_id));
  arguments.Add(Int32GetDatum(lane.lane));
  arguments.Add(ForeignText(server_run));
  for (const std::string* text : {&finding.loss.survived, &finding.loss.stream, &finding.loss.acknowledged}) {
    arguments.Add(TextDatum(*text));
  }
  auto add = [&arguments](const std::string& text) {
    text.empty() ? arguments.AddNull() : arguments.Add(TextDatum(text));
  };
  finding.wanted ? add(DeliveredAfter(finding)) : arguments.AddNull();
  arguments.Add(TextDatum(reason));
  arguments.Add(TextDatum(rewound ? "rewind" : "lost writes"));
  add(finding.beyond.after);
  finding.beyond.any ? arguments.Add(TextDatum(finding.beyond.border_at)) : arguments.AddNull();
  arguments.Add(Int64GetDatum(finding.parked.again));
  arguments.Add(Int64GetDatum(finding.parked.missing));
  RunStatement(&put, arguments.values, arguments.nulls);
}

}  // namespace outbox::log
