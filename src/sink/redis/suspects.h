// Records at which the server closes the connection [-]: it lets no client send as much at once
// (client-query-buffer-limit), or a proxy lets no such record through. Sent again with all others they would stop all.
//
// A connection may be lost for any reason, and mostly no record is: a proxy was started again, a client was killed. So
// those that were on its way are sent again in groups of an eighth of them, until they are written, and those of a
// group at which the connection is closed, too, in groups of an eighth of that, in the end alone. A lost connection
// costs eight round trips or so, and a record that is to blame is alone after three closes, whatever was with it.
//
// One that was alone on its way when the connection was closed, three times, is to blame, once another connection has
// met the same run of the server: that is neither away nor was it started again. Anything counts only where the
// connection had taken a write before, of another record or what the writer tries for this: where writes are paused
// behind a proxy, or none gets through, it is no record's fault.
//
// That write changes nothing, so nothing of it goes to the server's disk: one that is slow to write and has every
// record's answer come too late for a proxy looks the same. So no small record is accused, however often it was alone:
// Redis closes at none below a megabyte, and what a proxy lets through is mostly more. Nor is one while another that is
// no smaller is written.
//
// One that was told comes again, to be tried alone: one more time is enough then.
//
// Records are known by hashes of what they are. Used by one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

namespace outbox::sink {

class Suspects {
 public:
  // What Together() says of one that may go with any number of others, and of one that is not to go any more.
  static constexpr size_t kInnocent = SIZE_MAX;
  static constexpr size_t kGuilty = 0;
  static constexpr unsigned kCloses = 3;
  // None that is smaller is accused. As with Kafka.
  static constexpr size_t kSmall = size_t{32} << 10;

  struct Record {
    uint64_t hash = 0;
    size_t size = 0;
  };

  // Another connection, to this run of the server, can be used; "": it does not tell, and nobody is suspected.
  void Met(const std::string& server_run) {
    writes_ = false;
    if (server_run_ != server_run) {
      suspects_.clear();
      server_run_ = server_run;
    }
  }
  // It was closed with these on their way. `now`: monotonic microseconds.
  void Closed(std::span<const Record> records, int64_t now) {
    if (server_run_.empty() || records.empty()) {
      return;
    }
    closed_at_ = now;
    for (const Record& record : records) {
      const auto [found, is_new] = suspects_.try_emplace(record.hash, Suspect{record.size, records.size()});
      Suspect& suspect = found->second;
      if (is_new || writes_) {
        suspect.together = std::max<size_t>(std::min(suspect.together, records.size()) / kGroups, 1);
      }
      suspect.closes += writes_ && records.size() == 1 && record.size >= kSmall ? 1 : 0;
    }
  }
  // What was given up, or went to another worker, never comes again.
  void Expire(int64_t now) {
    if (now - closed_at_ > kRemembered) {
      suspects_.clear();
    }
  }
  bool any() const { return !suspects_.empty(); }
  // How many may be on their way together, this one among them.
  size_t Together(uint64_t hash) const {
    const auto found = suspects_.find(hash);
    return found == suspects_.end() ? kInnocent : found->second.closes >= kCloses ? kGuilty : found->second.together;
  }
  void Blame(const Record& record) { suspects_[record.hash] = {record.size, 1, kCloses - 1}; }
  void Written(const Record& record) {
    suspects_.erase(record.hash);
    for (auto suspect = suspects_.begin(); record.size >= kSmall && suspect != suspects_.end(); ++suspect) {
      suspect->second.closes = suspect->second.size <= record.size ? 0 : suspect->second.closes;
    }
  }
  // The connection has taken a write.
  void Wrote() { writes_ = true; }
  bool writes() const { return writes_; }

 private:
  struct Suspect {
    size_t size = 0;
    size_t together = 1;
    unsigned closes = 0;  // when it was alone
  };
  static constexpr int64_t kRemembered = 120'000'000;
  static constexpr size_t kGroups = 8;

  std::string server_run_;
  bool writes_ = false;  // the connection does
  std::unordered_map<uint64_t, Suspect> suspects_;
  int64_t closed_at_ = 0;
};

// Records that go together: as many as each of them lets.
class Group {
 public:
  size_t records() const { return records_; }
  bool Takes(size_t together) const { return records_ < std::min(most_, together); }
  void Add(size_t together) {
    most_ = std::min(most_, together);
    ++records_;
  }

 private:
  size_t records_ = 0;
  size_t most_ = Suspects::kInnocent;
};

}  // namespace outbox::sink
