// Each address of bootstrap.servers, tried by itself [-]: for outbox.test_server(). A client asks one of them and is
// content, so that nobody hears of a dead one before the others are down. See kafka_checkup.h.
#pragma once

#include <librdkafka/rdkafka.h>

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "sink/checkup.h"
#include "sink/kafka/client_settings.h"
#include "sink/kafka/client_trouble.h"
#include "sink/kafka/cluster_question.h"

namespace outbox::sink::kafka {

class BootstrapCheck {
 public:
  // Begins to ask, where there are several addresses: a client for each, all at once. The settings live to the end of
  // the process. Throws std::system_error where there is no thread.
  BootstrapCheck(const Settings& settings, int timeout_ms);

  // Waits until each has answered, or is given up, or it is `by`; what is worth a word, if anything.
  std::vector<CheckupRow> Run(int64_t by);

 private:
  struct Address {
    std::string name;
    std::unique_ptr<ClientTrouble> trouble;
    std::shared_ptr<ClusterQuestion> question;
    ClusterAnswer answer;
    bool over = false;  // nothing more is to come
  };

  bool Look(int64_t by);
  void TellUnanswered(std::vector<CheckupRow>* rows) const;
  void TellAnotherCluster(std::vector<CheckupRow>* rows) const;

  std::list<Address> addresses_;
};

}  // namespace outbox::sink::kafka
