// Records at which the server closes the connection [-]: it lets no client send as much at once
// (client-query-buffer-limit), or a proxy lets no such record through. Sent again with all others they would stop all.
//
// A connection may be lost for any reason. So each record that was on its way is sent alone from then on, until it is
// written. One that was alone on its way when the connection was closed, three times, is to blame, once another
// connection has met the same run of the server: that is neither away nor was it started again. It counts only where
// the connection had taken a write before, of another record or what the writer tries for this: where writes are paused
// behind a proxy, or none gets through, it is no record's fault.
//
// One that was told comes again, to be tried alone: one more time is enough then.
//
// Records are hashes of what they are. Used by one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

namespace outbox::sink {

class Suspects {
 public:
  enum class Suspicion : uint8_t { kInnocent, kAlone, kGuilty };
  static constexpr unsigned kCloses = 3;

  // Another connection, to this run of the server, can be used; "": it does not tell, and nobody is suspected.
  void Met(const std::string& server_run) {
    writes_ = false;
    if (server_run_ != server_run) {
      closes_.clear();
      server_run_ = server_run;
    }
  }
  // It was closed with these on their way. `now`: monotonic microseconds.
  void Closed(std::span<const uint64_t> records, int64_t now) {
    if (server_run_.empty() || records.empty()) {
      return;
    }
    closed_at_ = now;
    for (const uint64_t record : records) {
      unsigned& alone = closes_[record];
      alone += writes_ && records.size() == 1 ? 1 : 0;
    }
  }
  // What was given up, or went to another worker, never comes again.
  void Expire(int64_t now) {
    if (now - closed_at_ > kRemembered) {
      closes_.clear();
    }
  }
  bool any() const { return !closes_.empty(); }
  Suspicion Judge(uint64_t record) const {
    const auto found = closes_.find(record);
    return found == closes_.end()     ? Suspicion::kInnocent
           : found->second >= kCloses ? Suspicion::kGuilty
                                      : Suspicion::kAlone;
  }
  void Blame(uint64_t record) { closes_[record] = kCloses - 1; }
  void Written(uint64_t record) { closes_.erase(record); }
  // The connection has taken a write.
  void Wrote() { writes_ = true; }
  bool writes() const { return writes_; }

 private:
  static constexpr int64_t kRemembered = 120'000'000;

  std::string server_run_;
  bool writes_ = false;                            // the connection does
  std::unordered_map<uint64_t, unsigned> closes_;  // alone, of each that is suspected
  int64_t closed_at_ = 0;
};

}  // namespace outbox::sink
