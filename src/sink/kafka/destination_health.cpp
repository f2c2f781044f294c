#include "sink/kafka/destination_health.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <utility>

#include "sink/kafka/errors.h"
#include "sink/kafka/metadata.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kCheckMicros = 1'000'000;
constexpr int64_t kTellLost = 3'600'000'000;
constexpr int64_t kGatherLost = 60'000'000;  // many partitions have lost something at once: the first is told
constexpr size_t kMostRefusals = 1000;       // brokers; no cluster has as many

}  // namespace

void DestinationHealth::SetUp() {
  if (!up()) {
    state_ = State::kUp;
    told_.up = true;
    told_.error = {};
    ++told_.changes;
  }
  last_trouble_.clear();
  refusal_ = {};
  unanswered_ = 0;
  check_ = check_ == Check::kWanted ? Check::kNone : check_;
}

void DestinationHealth::Delivered(int64_t now) {
  answered_at_ = now;
  if (now >= warn_until_) {
    SetWarning({});
  }
  SetUp();
}

void DestinationHealth::SetWarning(Error warning) {
  if (lost_until_ < 0 && warning.code != told_.warning.code) {
    told_.warning = std::move(warning);
    ++told_.changes;
  }
}

void DestinationHealth::Warn(Error warning, int64_t until) {
  warn_until_ = until;
  SetWarning(std::move(warning));
}

void DestinationHealth::Lost(Error error, int64_t now) {
  if (lost_until_ >= 0 && now < lost_until_ - kTellLost + kGatherLost) {
    return;
  }
  lost_until_ = now + kTellLost;
  told_.warning = std::move(error);
  ++told_.changes;
}

void DestinationHealth::EndLost(int64_t now) {
  if (lost_until_ >= 0 && now >= lost_until_) {
    lost_until_ = -1;
    SetWarning({});
  }
}

void DestinationHealth::SetSending(bool sending) {
  if (sending != told_.sending) {
    told_.sending = sending;
    ++told_.changes;
  }
}

void DestinationHealth::SetCluster(const std::string& cluster) {
  if (cluster != told_.cluster) {
    told_.cluster = cluster;
    ++told_.changes;
  }
}

void DestinationHealth::Tell(Error error) {
  // The library's texts vary from one attempt to the next; the first of a producer says what happened.
  if (std::exchange(renewed_, false) || told_.up || told_.error.code != error.code ||
      told_.error.error_class != error.error_class) {
    told_.up = false;
    told_.error = std::move(error);
    ++told_.changes;
  }
}

void DestinationHealth::SetDown(Error error, int64_t now) {
  Tell(std::move(error));
  if (state_ != State::kDownByFatal) {
    state_ = State::kDown;
    if (check_ == Check::kNone) {
      WantCheck(now + kCheckMicros);
    }
  }
}

void DestinationHealth::Refused(Error error, int64_t now) {
  Said(error.message, now);
  if (refusals_.size() >= kMostRefusals) {
    refusals_.clear();
  }
  refusals_[error.message.substr(0, error.message.find(": "))] = {error, now};
  if (!up()) {
    SetDown(std::move(error), now);
    return;
  }
  refusal_ = std::move(error);
  WantCheck(now);
}

bool DestinationHealth::refuses(int64_t since) const {
  return std::any_of(refusals_.begin(), refusals_.end(),
                     [since](const auto& refusal) { return refusal.second.at >= since; });
}

Error DestinationHealth::refusal(const std::vector<std::string>& addresses, int64_t since) const {
  for (const auto& [broker, refusal] : refusals_) {
    for (const std::string& address : addresses) {
      if (refusal.at >= since && SpeaksOf(refusal.error.message, address)) {
        return refusal.error;
      }
    }
  }
  return {};
}

std::string DestinationHealth::said(int64_t since, int64_t now) const {
  if (said_at_ < since || said_.empty()) {
    return "";
  }
  const int64_t ago = (now - said_at_) / 1'000'000;
  return ago < 2 ? said_ : "(" + std::to_string(ago) + " s before) " + said_;
}

void DestinationHealth::SetDownByFatal(Error error) {
  state_ = State::kDownByFatal;
  Tell(std::move(error));
}

void DestinationHealth::AllBrokersDown(int code, const std::string& text, bool waits, int64_t now) {
  if (up() && !refusal_.ok()) {
    SetDown(refusal_, now);
  } else if (!waits && up()) {
    WantCheck(now);  // may be no more than idle connections that were closed
  } else if (up() || told_.error.error_class != ErrorClass::kConfig) {
    SetDown(MakeError(code, ErrorClass::kDestination, last_trouble_.empty() ? text : last_trouble_), now);
  }
}

void DestinationHealth::WantCheck(int64_t at) {
  if (check_ != Check::kAsked) {
    check_ = Check::kWanted;
    check_at_ = at;
  }
}

bool DestinationHealth::AskNow() {
  return std::exchange(check_, Check::kAsked) != Check::kAsked;
}

void DestinationHealth::Answered(bool answered, bool waits, int64_t now) {
  check_ = Check::kNone;
  if (answered) {
    if (state_ != State::kDownByFatal) {
      SetUp();
    }
    return;
  }
  if (up() && !waits && ++unanswered_ < addresses_) {
    WantCheck(now);
    return;
  }
  if (up()) {
    // Without an error about connections they are open, and no broker answers on them.
    SetDown(!refusal_.ok() ? refusal_
            : last_trouble_.empty()
                ? MakeError(RD_KAFKA_RESP_ERR__TIMED_OUT, ErrorClass::kDestination, "no broker answers")
                : MakeError(RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, ErrorClass::kDestination, last_trouble_),
            now);
  }
  WantCheck(now + kCheckMicros);
}

void DestinationHealth::ProducerStarted(int64_t now) {
  if (state_ == State::kDownByFatal) {
    SetUp();  // the next delivery, or the next failure, will tell
  } else if (!up()) {
    renewed_ = true;
    WantCheck(now);
  }
}

}  // namespace outbox::sink::kafka
