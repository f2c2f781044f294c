#include "worker/complaints.h"

#include "base/monotonic.h"
#include "pg/guard.h"
#include "pg/log_line.h"

namespace outbox::worker {

namespace {

constexpr int64_t kEvery = 60 * kSecond;

void SayEnd(const std::string& who, const PastTrouble& over, int64_t now) {
  const char* name = who.c_str();
  const PastTrouble* past = &over;
  const double seconds = static_cast<double>(over.lasted) / kSecond;
  pg::Guard([=] {
    ereport(LOG, (errmsg("%s: works again after %.1f s", name, seconds), DetailOfEnd(*past, now),
                  pg::LogEvent("error_over", {{"seconds", psprintf("%.1f", seconds)}})));
  });
}

}  // namespace

bool Complaints::MaySay(const std::string& what, int64_t now) {
  const auto [said, first] = said_.try_emplace(what, now);
  if (!first && now - said->second < kEvery) {
    return false;
  }
  said->second = now;
  return true;
}

void Complaints::Say(const std::string& who, const pg::PendingError& error) {
  if (gone_()) {
    return;
  }
  const int64_t now = MonotonicMicros();
  Trouble& trouble = troubles_.try_emplace(who, Trouble{Outages(now)}).first->second;
  trouble.outages.SeeTrouble(now);
  const int code = error.rethrow != nullptr ? error.rethrow->sqlerrcode : error.sqlstate;
  if (MaySay(who + ": " + unpack_sql_state(code), now)) {
    trouble.said = true;
    pg::Guard([name = who.c_str(), error] { pg::Report(LOG, name, error); });
  }
}

void Complaints::Well(const std::string& who) {
  if (const auto trouble = troubles_.find(who); trouble != troubles_.end()) {
    trouble->second.outages.SeeNone(MonotonicMicros());
  }
}

void Complaints::SayEnds() {
  for (auto trouble = troubles_.begin(); trouble != troubles_.end();) {
    const int64_t now = MonotonicMicros();
    if (!trouble->second.outages.Over(now)) {
      trouble = std::next(trouble);
      continue;
    }
    const auto over = troubles_.extract(trouble++);
    if (over.mapped().said) {
      SayEnd(over.key(), over.mapped().outages.Past(), now);
    }
  }
}

}  // namespace outbox::worker
