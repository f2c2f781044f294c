// Whether the destination can be used, as the worker is told, and when brokers are asked whether they are there [-].
//
// Up again with a delivery, or with any answer of a broker to a question that the sink asks every second while down.
// Called from the sink's thread; times are monotonic microseconds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "sink/sink.h"

namespace outbox::sink::kafka {

class DestinationHealth {
 public:
  // `addresses`: among how many the library chooses where it has no connection. Those that do not answer say nothing of
  // the others.
  explicit DestinationHealth(int addresses) : addresses_(addresses) {}

  const Health& told() const { return told_; }
  bool up() const { return state_ == State::kUp; }
  int64_t answered_at() const { return answered_at_; }  // the last acknowledgement, or answer to a question

  void Delivered(int64_t now);
  void SetDown(Error error, int64_t now);
  // A broker lets nobody in, for credentials or certificates: of one of several that says nothing.
  void Refused(Error error, int64_t now);
  // Nothing but a new producer can show that it is over.
  void SetDownByFatal(Error error);
  void SetWarning(Error warning);
  // One that deliveries do not end before `until`.
  void Warn(Error warning, int64_t until);
  // Records that were acknowledged are gone: told for an hour, whatever else there is to warn of.
  void Lost(Error error, int64_t now);
  int64_t lost_until() const { return lost_until_; }  // -1: nothing is told
  void EndLost(int64_t now);
  void SetSending(bool sending);
  // Which one the producers are connected to.
  void SetCluster(const std::string& cluster);
  // The library reports a connection that failed. It tries again; only all of them together say something.
  void ConnectionFailed(std::string text, int64_t now) {
    Said(text, now);
    last_trouble_ = std::move(text);
  }
  // Whether any broker was said to let nobody in, since then.
  bool refuses(int64_t since) const;
  // Why one of these brokers lets nobody in, if that was said since then; else ok().
  Error refusal(const std::vector<std::string>& addresses, int64_t since) const;
  // The newest trouble with a connection, and how long ago that was, if it is not older than that; else "".
  std::string said(int64_t since, int64_t now) const;
  // It reports that all have failed. `waits`: records are in the library.
  void AllBrokersDown(int code, const std::string& text, bool waits, int64_t now);

  // Takes the question for asked, unless one is: then false. The other asks only when it is time for that.
  bool AskNow();
  bool AskIfTime(int64_t now) { return ask_at() >= 0 && now >= ask_at() && AskNow(); }
  int64_t ask_at() const { return check_ == Check::kWanted ? check_at_ : -1; }  // -1: never
  // The answer. `answered` false: no broker did in time. `waits`: as above; while nothing does, as many questions are
  // asked as there are addresses.
  void Answered(bool answered, bool waits, int64_t now);
  // The answer of any broker to any question.
  void AnsweredSomething(int64_t now) { answered_at_ = now; }

  // The next one may meet another cluster.
  void ProducerEnded() {
    check_ = Check::kNone;
    SetCluster("");
  }
  void ProducerStarted(int64_t now);

 private:
  enum class State : uint8_t { kUp, kDown, kDownByFatal };
  enum class Check : uint8_t { kNone, kWanted, kAsked };

  void SetUp();
  void Said(const std::string& text, int64_t now) {
    said_ = text;
    said_at_ = now;
  }
  void Tell(Error error);
  void WantCheck(int64_t at);

  const int addresses_;
  Health told_;
  State state_ = State::kUp;
  Check check_ = Check::kNone;
  int64_t check_at_ = 0;  // kWanted
  int unanswered_ = 0;    // questions in a row
  int64_t answered_at_ = 0;
  int64_t warn_until_ = 0;
  int64_t lost_until_ = -1;
  Error refusal_;         // since all was well
  bool renewed_ = false;  // there is another producer, of which nothing was told yet
  struct Refusal {
    Error error;
    int64_t at = 0;
  };
  std::map<std::string, Refusal> refusals_;  // of each broker the newest, whether or not all was well
  std::string said_;                         // as these
  int64_t said_at_ = 0;
  std::string last_trouble_;  // the newest connection error since all was well, for people
};

}  // namespace outbox::sink::kafka
