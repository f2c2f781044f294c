#include "log/loss/rewind_words.h"

#include "base/count_text.h"
#include "base/utf8.h"
#include "pg/sql.h"

namespace outbox::log {

using namespace pg::sql;

namespace {

// When what is sent again was delivered: after that; "": all.
const std::string& DeliveredAfter(const Finding& finding) {
  return !finding.all ? finding.kept_at : finding.beyond.border_at;
}

// `one`, `many`: the verb.
std::string ParkedEvents(int64_t count, const char* one, const char* many) {
  return CountText(count, "event that was", "events that were") + " delivered from outbox_internal.parked " +
         (count == 1 ? one : many);
}

// It is only what was delivered before the lanes began anew that is missing.
bool OnlyBeyond(const Finding& finding, bool rewound) {
  return finding.beyond.any && (rewound || !finding.wanted);
}

std::string After(std::string text, const std::string& more) {
  return more.empty() ? std::move(text) : std::move(text) + "; " + more;
}

// The route is another one now. Of its own seek() and replay() nothing comes that it takes no more.
std::string TellAltered(const Finding& finding, const std::string& since) {
  std::string text = "what it took before outbox.alter_route() at " + finding.altered.at_text;
  text += !finding.altered.narrowed ? " goes where it sends now: "
          : finding.altered.moved   ? " is not sent, or goes elsewhere: "
                                    : " and takes no more is not sent: ";
  if (finding.altered.narrowed) {
    text += "outbox.seek() to " + since + " of a route that takes it, or ";
  }
  return text + "a new route with start => " + since + (finding.altered.moved ? " as it was sends it" : " sends it");
}

// What is missing and is not sent again without an operator; "": nothing is.
std::string TellMissing(const Finding& finding, bool rewound) {
  if (finding.missing_since_at.empty()) {
    return "";
  }
  const std::string since = "'" + finding.missing_since_at + "'";
  const std::string altered = finding.altered.at_text.empty() ? "" : TellAltered(finding, since);
  if (!altered.empty() && rewound && !finding.beyond.any) {
    return altered;
  }
  std::string text = (OnlyBeyond(finding, rewound) ? "what was delivered before " + finding.beyond.border_at +
                                                         ", when its lanes began anew, is not sent: "
                                                   : std::string()) +
                     "outbox.seek() to " + since + " or outbox.replay(since => " + since + ") sends it";
  return After(std::move(text), altered);
}

std::string Parked(const Finding& finding) {
  return ParkedEvents(finding.parked.missing, "is not sent: outbox.seek() or outbox.replay() sends it",
                      "are not sent: outbox.seek() or outbox.replay() sends them");
}

}  // namespace

std::string Reason(const Finding& finding, bool rewound) {
  return After(rewound ? "the Redis server has lost what it had acknowledged" : finding.why_not,
               TellMissing(finding, rewound));
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
    text += "; " + ParkedEvents(finding.parked.again, "goes again", "go again");
  }
  if (finding.parked.missing > 0) {
    text += "; " + Parked(finding);
  }
  return After(std::move(text), TellMissing(finding, rewound));
}

std::string Brief(const LaneId& lane, const Finding& finding, bool rewound) {
  std::string missing = TellMissing(finding, rewound);
  if (missing.empty() && finding.parked.missing == 0) {
    return Describe(lane, finding, rewound);
  }
  if (!rewound && !OnlyBeyond(finding, rewound)) {
    missing = After("nothing is sent again: " + finding.why_not, missing);
  }
  if (finding.parked.missing > 0) {
    missing = missing.empty() ? Parked(finding) : After(std::move(missing), Parked(finding));
  }
  return After(std::move(missing), "lane " + std::to_string(lane.lane) + " of route \"" + finding.route + "\"");
}

void WriteAudit(const LaneId& lane, std::string_view server_run, const Finding& finding, bool rewound,
                const std::string& reason) {
  static Statement put = {
      "INSERT INTO outbox.audit (who, action, route, detail, reason)"
      " SELECT CURRENT_USER, $9, r.name, jsonb_build_object('lane', $2, 'server', r.server, 'run', $3,"
      " 'survived', $4, 'stream', $5, 'acknowledged', $6, 'delivered_after', $7)"
      " || CASE WHEN $11 IS NULL THEN '{}' ELSE jsonb_build_object('missing_since', $11) END"
      " || CASE WHEN $10 IS NULL THEN '{}' ELSE jsonb_build_object('missing_before', $10) END"
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
  if (rewound && finding.altered.at > finding.beyond.border) {
    add(finding.altered.at_text);
  } else {
    OnlyBeyond(finding, rewound) ? add(finding.beyond.border_at) : arguments.AddNull();
  }
  add(finding.missing_since_at);
  arguments.Add(Int64GetDatum(finding.parked.again));
  arguments.Add(Int64GetDatum(finding.parked.missing));
  RunStatement(&put, arguments.values, arguments.nulls);
}

}  // namespace outbox::log
