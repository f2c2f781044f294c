// What a client of the library says of connections that do not come about, while somebody waits for one [-]: for
// outbox.test_server(). See kafka_checkup.h.
#pragma once

#include <librdkafka/rdkafka.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "sink/kafka/client_settings.h"

namespace outbox::sink::kafka {

class ClientTrouble {
 public:
  // Takes over the events of the handle, which lives to the end of the process, as the settings have to. `timeout_ms`:
  // how long the caller waits at most.
  ClientTrouble(const Settings& settings, rd_kafka_t* handle, int timeout_ms);
  ~ClientTrouble() { rd_kafka_queue_destroy(queue_); }
  ClientTrouble(const ClientTrouble&) = delete;
  ClientTrouble& operator=(const ClientTrouble&) = delete;

  // Takes what has been said; waits up to so long for the first of it.
  void Take(int timeout_ms = 0);

  // Of several troubles one that a person has to mend says more than a connection that did not come about.
  const Error& error() const { return error_; }
  // Why the client has stopped; ok(): it has not.
  const Error& fatal() const { return fatal_; }
  // A broker has given it the number by which it may write, which a user gets who may write to any topic.
  bool may_write() const { return may_write_; }

  // How often a broker has said that it gives no such number, and what it said last.
  int refusals() const { return refusals_; }
  const std::string& no_id() const { return no_id_; }

  // Until when an answer may still come, after all that was said: `addresses` are tried one after the other. 0: nothing
  // was said.
  int64_t GiveUpAt(int addresses) const;

  struct Said {
    int64_t at = 0;
    Error error;
  };
  // What was said last of the broker with that address; of several, what a person has to mend. nullptr: nothing.
  const Said* Of(const std::string& address) const;

 private:
  void TakeError(rd_kafka_event_t* event);

  const Settings& settings_;
  rd_kafka_t* const handle_;
  rd_kafka_queue_t* const queue_;
  const int64_t hung_up_patience_;
  std::vector<Said> said_;
  Error error_;
  int64_t first_at_ = 0;
  bool hung_up_ = false;
  Error fatal_;
  bool may_write_ = false;
  int refusals_ = 0;
  std::string no_id_;
};

// What a person can do about a connection that did not come about; no more than a sentence or two.
std::string ConnectionHint(const Error& error);
// About the leader of a partition that has not answered, with that code.
std::string LeaderHint(const std::string& code);

// After the first failed connection: others may work, of a name that has two addresses too.
constexpr int64_t kOthersMicros = 500'000;

}  // namespace outbox::sink::kafka
