#include "log/progress/routes.h"

#include <algorithm>

#include "pg/encoding.h"
#include "pg/sql.h"
#include "pg/transaction.h"

extern "C" {
#include "utils/array.h"
}

namespace outbox::log {

using namespace pg::sql;

namespace {

// Elements of a text[] of the result; no NULLs are expected. Plain: the caller fills its owners from the pointers.
int ResultTexts(const ResultRow& row, int column, char*** texts) {
  bool isnull = false;
  Datum value = ResultDatum(row, column, &isnull);
  if (isnull) {
    return 0;
  }
  Datum* elements = nullptr;
  bool* nulls = nullptr;
  int count = 0;
  deconstruct_array(DatumGetArrayTypeP(value), TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &count);
  *texts = static_cast<char**>(palloc((count + 1) * sizeof(char*)));
  for (int i = 0; i < count; i++) {
    (*texts)[i] = nulls[i] ? pstrdup("") : TextDatumGetCString(elements[i]);
  }
  return count;
}

// Events are UTF-8 once they are read, so patterns and templates have to be, too.
void ReadStrings(const ResultRow& row, int column, std::vector<std::string>* strings) {
  char** texts = nullptr;
  int count = ResultTexts(row, column, &texts);
  for (int i = 0; i < count; i++) {
    strings->emplace_back(pg::Utf8(texts[i]));
  }
}

// Where the events of a database come from, if nothing is said: the same after a failover, an upgrade and a restore.
// The name's bytes as they are: its encoding is that of whatever database it was created from.
std::string SourceOf(std::string_view database) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string source = "/outbox/";
  for (const char c : database) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte | 32) >= 'a' && (byte | 32) <= 'z') {
      source += c;
    } else if ((c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '~') {
      source += c;
    } else {
      source.append(1, '%').append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
    }
  }
  return source;
}

void ReadConfig(const ResultRow& row, format::RouteConfig* config) {
  config->aggregate_types.clear();
  config->event_types.clear();
  ReadStrings(row, 3, &config->aggregate_types);
  ReadStrings(row, 4, &config->event_types);
  config->topic = pg::Utf8(ResultText(row, 5));
  config->key = pg::Utf8(ResultText(row, 6));
  config->lanes = static_cast<uint32_t>(Max(ResultInt32(row, 7), 1));
  config->policy.on_failure = ResultBool(row, 11) ? format::OnFailure::kBlock : format::OnFailure::kSkip;
  config->policy.max_attempts = ResultInt32(row, 12);
  config->policy.backoff_base = ResultInt64(row, 13);
  config->policy.backoff_cap = ResultInt64(row, 14);
  config->format = format::FindFormat(ResultText(row, 22));
  const char* source = ResultText(row, 23);  // ASCII, as the setting's check has it
  config->source = source != nullptr ? source : SourceOf(ResultText(row, 24));
  config->topics_known.clear();
  ReadStrings(row, 21, &config->topics_known);
  const char* reason = ResultText(row, 15);
  config->paused = reason != nullptr;
  config->pause_reason = reason == nullptr ? std::string_view() : pg::Utf8(reason);
  ReadStrings(row, 16, &config->paused_topics);
  char** types = nullptr;
  char** ids = nullptr;
  int keys = ResultTexts(row, 17, &types);
  keys = Min(keys, ResultTexts(row, 18, &ids));
  for (int i = 0; i < keys; i++) {
    std::string_view type = pg::Utf8(types[i]);
    std::string_view id = pg::Utf8(ids[i]);
    config->paused_keys.push_back({std::string(type), std::string(id)});
  }
}

void ReadOptions(const ResultRow& row, sink::OptionList* options) {
  char** names = nullptr;
  char** values = nullptr;
  int count = ResultTexts(row, 8, &names);
  count = Min(count, ResultTexts(row, 20, &values));
  for (int i = 0; i < count; i++) {
    const std::string_view name = pg::Utf8(names[i]);
    const std::string_view value = pg::Utf8(values[i]);
    options->emplace_back(name, value);
  }
}

void ReadRoute(const ResultRow& row, Route* route) {
  route->id = ResultInt64(row, 0);
  route->name = ResultText(row, 1);
  route->server = ResultText(row, 2);
  ReadConfig(row, &route->config);
  ReadOptions(row, &route->options);
  route->converging = ResultBool(row, 9);
  const char* common = ResultText(row, 10);
  route->common_snapshot = common == nullptr ? "" : common;
  route->moved_at = ResultInt64(row, 19);
}

}  // namespace

// Pauses and lanes are gone through once, not once for each of a thousand routes; most routes have no options. Those of
// one route are found by their indexes: that of outbox.pause begins with coalesce(route_id, 0), 0 for destinations.
const char* const kSelectRoutes =
    "SELECT r.id, r.name, r.server::text, r.aggregate_types, r.event_types, r.topic, r.key, r.lanes,"
    " CASE WHEN r.options = '{}' THEN '{}' ELSE ARRAY(SELECT o.key FROM jsonb_each_text(r.options) o"
    " ORDER BY o.key) END,"
    " r.lanes_begun IS NOT NULL, r.common_snapshot, r.on_failure = 'block', r.max_attempts,"
    " (EXTRACT(epoch FROM r.backoff_base) * 1000000)::int8,"
    " (EXTRACT(epoch FROM r.backoff_cap) * 1000000)::int8,"
    " CASE WHEN w.reason IS NULL OR v.paused_at < w.paused_at THEN v.reason ELSE w.reason END,"
    " coalesce(z.topics, '{}'), coalesce(z.types, '{}'), coalesce(z.ids, '{}'),"
    " coalesce((EXTRACT(epoch FROM l.since) * 1000000)::int8, 0),"
    " CASE WHEN r.options = '{}' THEN '{}' ELSE ARRAY(SELECT coalesce(o.value, '') FROM jsonb_each_text(r.options) o"
    " ORDER BY o.key) END,"
    " CASE WHEN jsonb_typeof(r.options->'topics_known') = 'array'"
    " THEN ARRAY(SELECT jsonb_array_elements_text(r.options->'topics_known')) ELSE '{}' END, r.format,"
    " NULLIF(current_setting('outbox.cloudevents_source', true), ''), current_database()::text"
    " FROM outbox.route r"
    " LEFT JOIN (SELECT l.route_id, max(l.since) AS since FROM outbox_internal.lane l"
    " WHERE l.since > '-infinity' GROUP BY 1) l ON l.route_id = r.id"
    " LEFT JOIN (SELECT coalesce(z.route_id, 0) AS route_id,"
    " array_agg(z.topic ORDER BY z.topic) FILTER (WHERE z.topic IS NOT NULL) AS topics,"
    " array_agg(z.aggregate_type ORDER BY z.id) FILTER (WHERE z.aggregate_type IS NOT NULL) AS types,"
    " array_agg(z.aggregate_id ORDER BY z.id) FILTER (WHERE z.aggregate_type IS NOT NULL) AS ids"
    " FROM outbox.pause z GROUP BY 1) z ON z.route_id = r.id"
    " LEFT JOIN (SELECT DISTINCT ON (coalesce(z.route_id, 0)) coalesce(z.route_id, 0) AS route_id, z.reason,"
    " z.paused_at FROM outbox.pause z WHERE z.topic IS NULL AND z.aggregate_type IS NULL"
    " ORDER BY coalesce(z.route_id, 0), z.paused_at) v ON v.route_id = r.id"
    " LEFT JOIN (SELECT DISTINCT ON (z.server) z.server, z.reason, z.paused_at FROM outbox.pause z"
    " WHERE coalesce(z.route_id, 0) = 0 ORDER BY z.server, z.paused_at) w ON w.server = r.server";

void ReadRoutes(std::vector<Route>* routes) {
  routes->reserve(routes->size() + SPI_processed);
  for (uint64 row = 0; row < SPI_processed; row++) {
    ReadRoute(TakeRow(row), &routes->emplace_back());
  }
}

void ListRoutes(std::vector<Route>* routes) {
  pg::InTransaction(CurrentMemoryContext, [&] {
    static Statement all = {kSelectRoutes, 0, {}, nullptr};
    RunStatement(&all, nullptr);
    ReadRoutes(routes);
  });
  std::sort(routes->begin(), routes->end(), [](const Route& a, const Route& b) { return a.id < b.id; });
}

std::shared_ptr<const format::RouteSpec> CompileRoute(const Route& route, const sink::SinkKind& kind, int32_t lane,
                                                      std::string* problem) {
  const auto refuse = [problem](const char* why) {
    if (problem != nullptr) {
      *problem = why;
    }
    return nullptr;
  };
  format::RouteConfig config = route.config;
  config.kind = &kind;
  if (kind.form != nullptr) {
    config.form = kind.form(route.options);
  }
  config.options = route.options;
  if (config.format == nullptr) {
    return refuse("there is no such format");
  }
  config.lane = static_cast<uint32_t>(lane);
  if (config.lane >= config.lanes) {
    return refuse("the lane is outside of the route's lanes");
  }
  format::TemplateError error;
  auto spec = format::RouteSpec::Make(config, &error);
  if (spec == nullptr) {
    return refuse(error.message.c_str());
  }
  return spec;
}

}  // namespace outbox::log
