// How long trouble lasts that comes and goes, for the lines of the server's log that tell its end [P].
#pragma once

#include <cstdint>
#include <string>

namespace outbox::worker {

// Trouble that is over. Microseconds, monotonic.
struct PastTrouble {
  std::string code = {};  // of its error, as said
  int64_t lasted = 0;     // of several outages the last
  int64_t ended = 0;      // when; it is said some seconds later
  int outages = 1;
  int64_t total = 0;  // that they took, from the first to the last
};

// Trouble as it comes and goes: several outages that come too soon for lines of their own have one pair of lines.
// Microseconds, monotonic.
class Outages {
 public:
  Outages() = default;
  explicit Outages(int64_t began) : began_(began), again_(began) {}

  // `moment`: less of it without trouble is no end.
  void SeeTrouble(int64_t now, int64_t moment = 0) {
    if (good_since_ != 0 && now - good_since_ >= moment) {
      again_ = now;
      ++outages_;
    }
    good_since_ = 0;
  }
  // The last outage is known to have begun then.
  void BeganAt(int64_t at) { again_ = at; }
  void SeeNone(int64_t now) { good_since_ = good_since_ == 0 ? now : good_since_; }

  int64_t began() const { return began_; }  // the first sign of trouble
  bool in_trouble() const { return good_since_ == 0; }
  bool Over(int64_t now) const { return good_since_ != 0 && now - good_since_ >= kSettles; }
  PastTrouble Past(const std::string& code = {}) const {
    return {code, good_since_ - again_, good_since_, outages_, good_since_ - began_};
  }

 private:
  static constexpr int64_t kSettles = 5'000'000;  // trouble is over when all works for so long

  int64_t began_ = 0;
  int64_t again_ = 0;  // the first sign of the last outage
  int outages_ = 1;
  int64_t good_since_ = 0;  // 0: still in trouble
};

// The DETAIL of the line of its end, within an ereport().
int DetailOfEnd(const PastTrouble& over, int64_t now);

}  // namespace outbox::worker
