#include "sink/kafka/bootstrap_check.h"

#include <string_view>

#include "base/monotonic.h"
#include "sink/kafka/signals_blocked.h"
#include "sink/options.h"

namespace outbox::sink::kafka {
namespace {

// A client each is some threads; nobody writes more than a few.
constexpr size_t kMostAddresses = 16;
constexpr int64_t kLookMicros = 10'000;

std::vector<std::string> Addresses(std::string_view list) {
  std::vector<std::string> addresses;
  while (!list.empty() && addresses.size() < kMostAddresses) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(item.size() == list.size() ? item.size() : item.size() + 1);
    const size_t begin = item.find_first_not_of(' ');
    if (begin != std::string_view::npos) {
      addresses.emplace_back(item.substr(begin, item.find_last_not_of(' ') + 1 - begin));
    }
  }
  return addresses;
}

}  // namespace

BootstrapCheck::BootstrapCheck(const Settings& settings, int timeout_ms) {
  const std::vector<std::string> names = Addresses(TextOption(settings.chosen, "bootstrap.servers", ""));
  if (names.size() < 2) {
    return;
  }
  for (const std::string& name : names) {
    Settings one = settings;
    one.chosen["bootstrap.servers"] = name;
    rd_kafka_conf_t* conf = nullptr;
    if (!one.MakeConf(&conf).ok()) {
      continue;
    }
    char text[512];
    rd_kafka_t* handle = nullptr;
    {
      const SignalsBlocked blocked;
      handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    }
    if (handle == nullptr) {
      rd_kafka_conf_destroy(conf);
      continue;
    }
    addresses_.push_back({name, std::make_unique<ClientTrouble>(settings, handle, timeout_ms),
                          ClusterQuestion::Ask(handle, "", timeout_ms), ClusterAnswer(), false});
  }
}

std::vector<CheckupRow> BootstrapCheck::Run(int64_t by) {
  while (!Look(by)) {
  }
  std::vector<CheckupRow> rows;
  TellAnotherCluster(&rows);
  TellUnanswered(&rows);
  return rows;
}

// Returns whether all is known.
bool BootstrapCheck::Look(int64_t by) {
  bool all = true;
  bool waited = false;
  for (Address& address : addresses_) {
    if (!address.over) {
      address.over = address.question->Wait(waited ? 0 : kLookMicros, &address.answer);
      waited = true;
      address.trouble->Take();
      const int64_t now = MonotonicMicros();
      const int64_t give_up = address.trouble->GiveUpAt(1);
      address.over |= now >= by || (give_up != 0 && now >= give_up);
    }
    all &= address.over;
  }
  return all;
}

void BootstrapCheck::TellUnanswered(std::vector<CheckupRow>* rows) const {
  size_t dead = 0;
  std::string which;
  for (const Address& address : addresses_) {
    if (address.answer.came) {
      continue;
    }
    const Error& error = address.trouble->error();
    which += (dead++ == 0 ? "" : "; ") + address.name + (error.ok() ? ", no answer" : ", " + error.message);
  }
  if (dead == 0 || dead == addresses_.size()) {  // of all of them the row about the connection speaks
    return;
  }
  rows->push_back({"bootstrap",
                   {},
                   std::to_string(dead) + " of the " + std::to_string(addresses_.size()) +
                       " addresses in bootstrap.servers let nobody in: " + which,
                   "One that answers is enough, and when the others are down a worker that starts has none: correct "
                   "what is wrong, or take it out of bootstrap.servers."});
}

void BootstrapCheck::TellAnotherCluster(std::vector<CheckupRow>* rows) const {
  const Address* first = nullptr;
  for (const Address& address : addresses_) {
    if (address.answer.cluster.empty()) {
      continue;
    }
    if (first == nullptr) {
      first = &address;
    } else if (address.answer.cluster != first->answer.cluster) {
      rows->push_back(
          {"bootstrap",
           {ErrorClass::kConfig, "TWO_CLUSTERS",
            "bootstrap.servers has addresses of two clusters: " + first->name + " is of \"" + first->answer.cluster +
                "\", and " + address.name + " of \"" + address.answer.cluster + "\""},
           "",
           "Which of them has the events would be left to chance: give each cluster a server of its own."});
      return;
    }
  }
}

}  // namespace outbox::sink::kafka
