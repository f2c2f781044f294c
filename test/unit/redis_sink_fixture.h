// A RedisSink on a real server of its own, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "redis_server.h"
#include "sink/places.h"
#include "sink/redis/redis_sink.h"
#include "sink_driver.h"

namespace outbox::sink {

class RedisSinkTest : public ::testing::Test {
 protected:
  void SetUp() override { signal(SIGPIPE, SIG_IGN); }
  // The server, a sink on it and a driver of it. Skips the test when there is no server to start.
  bool Begin(const Options& options = {}, const std::vector<std::string>& server_options = {}) {
    return server_.Start(server_options) && Connect(options);
  }
  // The same, of a server that takes no more than 1 MB of a client at once. `multi`: "+multi" or "-multi", whether the
  // user may call it.
  bool BeginWithLimit(const char* multi) {
    server_.Stop();
    if (!server_.Start({"--client-query-buffer-limit", "1mb"})) {
      return false;
    }
    server_.Command({"ACL", "SETUSER", "default", multi});
    return Connect();
  }
  bool Connect(Options options = {}) {
    options.emplace("unix_socket", server_.socket());
    SinkConfig config{"test", options, 0, 0};
    config.checks_server = checks_server_;
    EXPECT_TRUE(RedisSink::Make(config, &sink_).ok());
    driver_ = std::make_unique<Driver>(sink_.get());
    return true;
  }
  std::vector<std::string> Payloads(const std::string& stream) {
    std::vector<std::string> payloads;
    for (const auto& entry : server_.Stream(stream)) {
      for (size_t i = 0; i + 1 < entry.size(); i += 2) {
        if (entry[i] == "payload") {
          payloads.push_back(entry[i + 1]);
        }
      }
    }
    return payloads;
  }
  // The id of the first entry that the command gives.
  std::string Id(const std::vector<std::string>& command) {
    RedisServer::Reply reply = server_.Command(command);
    return reply->elements == 0 ? "" : reply->element[0]->element[0]->str;
  }
  static std::vector<TestRecord> Records(const std::string& stream, int count, RecordForm form = RecordForm::kStream) {
    std::vector<TestRecord> records;
    for (int i = 0; i < count; ++i) {
      records.push_back({stream, "k", std::to_string(i), form, {}});
    }
    return records;
  }
  static std::vector<std::string> Numbers(int count) {
    std::vector<std::string> numbers;
    for (int i = 0; i < count; ++i) {
      numbers.push_back(std::to_string(i));
    }
    return numbers;
  }
  // The commands that clients have in open transactions: one number for each client in one, oldest first.
  std::vector<int64_t> InTransactions() {
    const std::string clients = server_.Command({"CLIENT", "LIST"})->str;
    std::vector<int64_t> queued;
    for (size_t at = 0; (at = clients.find(" multi=", at)) != std::string::npos; ++at) {
      if (const int64_t commands = std::stoll(clients.substr(at + 7)); commands >= 0) {
        queued.push_back(commands);
      }
    }
    return queued;
  }
  int64_t Connections() {
    const std::string info = server_.Command({"INFO", "stats"})->str;
    return std::stoll(info.substr(info.find("total_connections_received:") + 27));
  }
  // As the server sees them, this one's own among them.
  int64_t Clients() {
    const std::string clients = server_.Command({"CLIENT", "LIST"})->str;
    return std::count(clients.begin(), clients.end(), '\n');
  }
  // Another life of the server is at the other end, and the sink waits.
  bool UntilMet() {
    return driver_->Until([this] { return !sink_->identity()->server_run.empty(); });
  }
  // Where the streams end there. As its owner does, asks again where the run is reported anew.
  std::vector<StreamEnd> Ends(const std::vector<AskedStream>& streams) {
    std::vector<StreamEnd> ends;
    uint64_t asked = 0;
    EXPECT_TRUE(driver_->Until([&] {
      if (sink_->identity()->number != asked) {
        asked = sink_->identity()->number;
        sink_->Ask(streams);
      }
      return sink_->TakeEnds(&ends);
    }));
    return ends;
  }
  // The server, started with --lua-time-limit 5, runs a script that does not end, and answers BUSY until EndBusy().
  void KeepBusy() {
    busy_.reset(redisConnectUnix(server_.socket().c_str()));
    redisAppendCommand(busy_.get(), "EVAL %s 0", "while true do end");
    for (int done = 0; done == 0;) {
      ASSERT_EQ(redisBufferWrite(busy_.get(), &done), REDIS_OK);
    }
    ASSERT_TRUE(driver_->Until([this] { return IsBusy(); }));
  }
  void EndBusy() {
    server_.Command({"SCRIPT", "KILL"});
    while (IsBusy()) {
    }
  }
  bool IsBusy() {
    const RedisServer::Reply reply = server_.Command({"PING"});
    return reply->type == REDIS_REPLY_ERROR && std::string(reply->str).starts_with("BUSY");
  }
  std::string ReplicationId() {
    const std::string info = server_.Command({"INFO", "replication"})->str;
    return info.substr(info.find("master_replid:"), 54);
  }
  // The server is a replica for a moment: its data have another history then.
  void BecomeReplicaForAMoment() {
    server_.Command({"REPLICAOF", "127.0.0.1", "1"});
    server_.Command({"REPLICAOF", "NO", "ONE"});
  }
  struct FreeContext {
    void operator()(redisContext* context) const { redisFree(context); }
  };
  std::unique_ptr<redisContext, FreeContext> busy_;
  bool checks_server_ = false;  // what sinks are made with
  RedisServer server_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<Driver> driver_;
};

#define BEGIN_OR_SKIP(...) OR_SKIP(Begin(__VA_ARGS__))
#define OR_SKIP(begun)                                        \
  if (!(begun)) {                                             \
    GTEST_SKIP() << "neither redis-server nor valkey-server"; \
  }

inline TestRecord To(std::string topic, std::string key, std::string body, RecordForm form = RecordForm::kStream) {
  return {std::move(topic), std::move(key), std::move(body), form, {}};
}

}  // namespace outbox::sink
