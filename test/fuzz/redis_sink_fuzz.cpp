// The Redis sink against a server that answers anything, in any pieces, and hangs up at any time: every record gets
// exactly one outcome, nothing of a key is delivered behind a record of it that was not, and no message is unprintable.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "fuzz.h"
#include "sink/record.h"
#include "sink/redis/redis_sink.h"

using namespace outbox;
using namespace outbox::sink;

namespace {

// A listening socket with an abstract name, one for all inputs.
class Listener {
 public:
  Listener() {
    name_ = std::string(1, '\0') + "outbox-fuzz-" + std::to_string(getpid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name_.data(), name_.size());
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    FUZZ_CHECK(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 && listen(fd_, 16) == 0);
  }
  const std::string& name() const { return name_; }
  int Accept() const { return accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); }

 private:
  std::string name_;
  int fd_;
};

struct Sent {
  uint32_t flow;
  uint32_t epoch;
  std::string place;  // target and key; "": no key
};

// The sink with its owner's bookkeeping.
class Owner {
 public:
  explicit Owner(std::unique_ptr<Sink> sink) : sink_(std::move(sink)) {}

  void Submit(fuzz::Input* in) {
    Batch batch;
    batch.flow = static_cast<uint32_t>(in->Below(2));
    batch.first_seq = next_;
    uint32_t& epoch = epochs_[batch.flow];
    epoch += in->Flag() && AllResolved(batch.flow) ? 1 : 0;  // the owner waits for all of a flow before it raises it
    batch.epoch = epoch;
    for (uint64_t i = 1 + in->Below(4); i > 0; --i) {
      Record record;
      record.form = static_cast<RecordForm>(in->Below(3));
      const std::string topic(1, static_cast<char>('a' + in->Below(2)));
      const std::string key(1, static_cast<char>('k' + in->Below(2)));
      const bool keyed = in->Flag();
      record.topic = topic;
      record.body = "body";
      if (keyed) {
        record.key = key;
      }
      FUZZ_CHECK(PackRecord(record, &batch.records));
      sent_[next_++] = {batch.flow, epoch, keyed ? std::to_string(static_cast<int>(record.form)) + topic + key : ""};
      ++batch.count;
    }
    sink_->Submit(std::move(batch));
  }

  void Poll() {
    std::vector<Result> results;
    sink_->Poll(&results);
    for (const Result& result : results) {
      for (uint32_t i = 0; i < result.count; ++i) {
        Note(result, result.first_seq + i);
      }
    }
    CheckError(sink_->health().error);
    std::vector<WaitSpec> waits;
    sink_->AppendWaits(&waits);
    FUZZ_CHECK(!waits.empty());
  }

  bool AllResolved() const { return outcomes_.size() == sent_.size(); }
  const Health& health() const { return sink_->health(); }
  void Close() { sink_->Close(); }

 private:
  bool AllResolved(uint32_t flow) const {
    return std::all_of(sent_.begin(), sent_.end(), [&](const auto& entry) {
      return entry.second.flow != flow || outcomes_.count(entry.first) != 0;
    });
  }
  static void CheckError(const Error& error) {
    FUZZ_CHECK(fuzz::IsUtf8(error.message) && fuzz::IsUtf8(error.code));
    FUZZ_CHECK(error.message.size() < 2000);
  }
  void Note(const Result& result, uint64_t seq) {
    auto found = sent_.find(seq);
    FUZZ_CHECK(found != sent_.end() && found->second.flow == result.flow);
    FUZZ_CHECK(outcomes_.emplace(seq, result.outcome).second);
    const Sent& sent = found->second;
    if (result.outcome == Outcome::kFailed) {
      FUZZ_CHECK(!result.error.ok());
      CheckError(result.error);
    }
    const std::string order = std::to_string(sent.flow) + "/" + std::to_string(sent.epoch) + "/" + sent.place;
    if (result.outcome != Outcome::kDelivered) {
      auto [first, fresh] = stopped_.emplace(order, seq);
      first->second = std::min(first->second, seq);
    } else if (!sent.place.empty()) {
      auto stopped = stopped_.find(order);
      FUZZ_CHECK(stopped == stopped_.end() || seq < stopped->second);
    }
  }

  std::unique_ptr<Sink> sink_;
  uint64_t next_ = 1;
  std::map<uint32_t, uint32_t> epochs_;
  std::map<uint64_t, Sent> sent_;
  std::map<uint64_t, Outcome> outcomes_;
  std::map<std::string, uint64_t> stopped_;  // by flow, epoch, target and key: the first not delivered
};

std::string Bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

std::string Reply(fuzz::Input* in) {
  switch (in->Take<uint8_t>() % 12) {
    case 0:
      return std::string(in->Text());
    case 1: {  // commands of a transaction are queued
      std::string queued;
      for (uint64_t i = 1 + in->Below(6); i > 0; --i) {
        queued += "+QUEUED\r\n";
      }
      return queued;
    }
    case 2: {  // EXEC
      const uint64_t count = in->Below(6);
      std::string done = "*" + std::to_string(count) + "\r\n";
      for (uint64_t i = 0; i < count; ++i) {
        done += in->Flag() ? Bulk("1-" + std::to_string(i)) : in->Flag() ? ":1\r\n" : "-ERR no\r\n";
      }
      return done;
    }
    case 10:
      return "-EXECABORT Transaction discarded because of: " + std::string(in->Text()) + "\r\n";
    case 11:
      return "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    case 3:
      return "-" + std::string(in->Text()) + "\r\n";
    case 4:
      return ":" + std::to_string(in->Take<int32_t>()) + "\r\n";
    case 5:
      return "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    case 6:
      return "-NOPERM this user has no permissions to run the 'multi' command\r\n";
    case 7:
      return "$3\r\n1-1\r\n";
    case 8:
      return "$-1\r\n";
    default:
      return "+OK\r\n";
  }
}

void Drain(int fd) {
  char buffer[4096];
  while (read(fd, buffer, sizeof(buffer)) > 0) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Listener listener;
  fuzz::Input in(data, size);
  SinkConfig config;
  config.name = "fuzz";
  config.options["unix_socket"] = listener.name();
  if (in.Flag()) {
    config.options["password"] = "secret";
  }
  std::unique_ptr<Sink> made;
  FUZZ_CHECK(RedisSink::Make(config, &made).ok());
  Owner owner(std::move(made));
  if (in.Flag()) {
    owner.Submit(&in);
  }
  owner.Poll();
  const int peer = listener.Accept();
  FUZZ_CHECK(peer >= 0);
  if (in.Flag()) {  // a polite greeting
    const std::string sha(40, 'a');
    std::string greeting = config.options.count("password") != 0 ? "+OK\r\n" : "";
    greeting += Bulk("# Server\r\nrun_id:" + sha + "\r\n") + Bulk(sha) + Bulk(sha);
    greeting += "+OK\r\n*0\r\n" + Bulk(sha) + "+PONG\r\n";
    FUZZ_CHECK(write(peer, greeting.data(), greeting.size()) == static_cast<ssize_t>(greeting.size()));
    owner.Poll();
    FUZZ_CHECK(owner.health().up);
    if (in.Flag()) {  // MULTI for the first transaction
      (void)send(peer, "+OK\r\n", 5, MSG_NOSIGNAL);
      owner.Poll();
    }
  }
  // Down, it would keep what comes for its next attempt, a tenth of a second later: that is another test's.
  for (int step = 0; step < 40 && !in.empty() && owner.health().up; ++step) {
    if (in.Take<uint8_t>() % 4 == 0) {
      owner.Submit(&in);
    } else {
      const std::string reply = Reply(&in);
      (void)send(peer, reply.data(), reply.size(), MSG_NOSIGNAL);
    }
    owner.Poll();
    Drain(peer);
  }
  close(peer);
  for (int turn = 0; turn < 8 && !owner.AllResolved(); ++turn) {
    owner.Poll();
    // After a reply that says so it connects anew before anything was lost: what waits, waits for that one.
    if (const int anew = listener.Accept(); anew >= 0) {
      close(anew);
    }
  }
  FUZZ_CHECK(owner.AllResolved());
  owner.Close();
  // A second connection may have been begun: take it off the listener.
  for (int extra = listener.Accept(); extra >= 0; extra = listener.Accept()) {
    close(extra);
  }
  return 0;
}
