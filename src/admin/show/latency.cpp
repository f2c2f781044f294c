// Behind the view outbox.latency [P]: from the histograms of each route, over their last minute and hour.
#include <algorithm>
#include <map>

#include "admin/common/query.h"
#include "base/monotonic.h"
#include "metrics/store.h"
#include "pg/entry.h"

namespace {

using namespace outbox::admin;
namespace metrics = outbox::metrics;

Cell Milliseconds(double micros) {
  char text[32];
  pg_snprintf(text, sizeof(text), "%.3f", micros / 1000);
  return text;
}

// Four quantiles and the maximum; NULL where there was nothing.
void AddQuantiles(const outbox::LatencyCounts& counts, Row* row) {
  for (const double quantile : {0.5, 0.95, 0.99, 0.999}) {
    row->push_back(counts.total() == 0 ? Cell() : Milliseconds(counts.Quantile(quantile)));
  }
  row->push_back(counts.total() == 0 ? Cell() : Milliseconds(static_cast<double>(counts.max)));
}

template <typename Recent>
void AddRow(const std::string& route, const std::string& destination, const char* period,
            const outbox::RouteFigures& figures, const Recent& delivery, const Recent& acknowledgement, int64 now,
            int64 counted, ResultSet* result) {
  outbox::LatencyCounts committed;
  outbox::LatencyCounts submitted;
  int64 covered = 0;
  delivery.Read(figures.delivery.all, now, &committed, &covered);
  acknowledgement.Read(figures.acknowledgement.all, now, &submitted, &covered);
  char rate[32];
  const int64 over = std::max<int64>(std::min(covered, counted), USECS_PER_SEC);
  pg_snprintf(rate, sizeof(rate), "%.4f", static_cast<double>(submitted.total()) * 1e6 / static_cast<double>(over));
  Row row = {route, destination, Cell(period), std::to_string(submitted.total()), Cell(rate)};
  AddQuantiles(committed, &row);
  AddQuantiles(submitted, &row);
  result->Add(row);
}

// `counted`: for how long these figures have been counted.
void AddRows(const std::string& route, const std::string& destination, const outbox::RouteFigures& figures,
             int64 counted, ResultSet* result) {
  const int64 now = outbox::MonotonicMicros();
  AddRow(route, destination, "minute", figures, figures.delivery.minute, figures.acknowledgement.minute, now, counted,
         result);
  AddRow(route, destination, "hour", figures, figures.delivery.hour, figures.acknowledgement.hour, now, counted,
         result);
}

}  // namespace

OUTBOX_FUNCTION(outbox_latency) {
  ResultSet result(fcinfo);
  result.Begin();
  if (metrics::Figures() == nullptr) {
    return static_cast<Datum>(0);
  }
  std::map<std::string, std::string> routes;
  for (const Row& row : RunSql(Access::kRead, "SELECT id, name FROM outbox.route")) {
    routes[row[0].value()] = row[1].value();
  }
  std::map<std::string, std::string> servers;
  for (const Row& row : RunSql(Access::kRead, "SELECT oid, srvname FROM pg_foreign_server")) {
    servers[row[0].value()] = row[1].value();
  }
  const metrics::DatabaseFigures* own = outbox::pg::Guard([] { return metrics::FindDatabase(MyDatabaseId, false); });
  const int64 since = own == nullptr ? metrics::Figures()->started_at : own->reset_at.load();
  const int64 counted = outbox::pg::UnixNow() - since;
  for (int i = 0; i < metrics::Figures()->max_routes; i++) {
    const metrics::RouteSlot& slot = metrics::RouteSlots()[i];
    if (slot.database.load() != MyDatabaseId) {
      continue;
    }
    auto route = routes.find(std::to_string(slot.route_id));
    auto server = servers.find(std::to_string(slot.server));
    if (route != routes.end() && server != servers.end()) {
      AddRows(route->second, server->second, slot.figures, counted, &result);
    }
  }
  if (own != nullptr && outbox::ValueOf(own->other.attempts) > 0) {
    AddRows("other", "other", own->other, counted, &result);
  }
  return static_cast<Datum>(0);
}
