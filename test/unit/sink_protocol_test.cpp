// matrix: E-9
// Frames and their bodies over a real socket pair; which records are pending.
#include "sink/protocol.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <set>

#include "sink/checkup.h"
#include "sink/flow_gate.h"
#include "sink/pending.h"
#include "sink/record.h"

namespace outbox::sink {
namespace {

class Frames : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair_), 0); }
  void TearDown() override {
    close(pair_[0]);
    close(pair_[1]);
  }
  int pair_[2] = {-1, -1};
};

TEST_F(Frames, ArriveWholeByteByByte) {
  FrameWriter writer;
  writer.Append(FrameType::kReady, "library 1");
  writer.Append(FrameType::kResults, "");
  writer.Append(FrameType::kSubmit, "head", "body");
  int sides[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sides), 0);
  ASSERT_EQ(writer.Flush(sides[0]), IoState::kOk);
  ASSERT_TRUE(writer.empty());

  FrameReader reader;
  std::vector<std::pair<FrameType, std::string>> frames;
  char byte;
  while (recv(sides[1], &byte, 1, 0) == 1) {
    ASSERT_EQ(send(pair_[0], &byte, 1, 0), 1);
    bool got = false;
    ASSERT_EQ(reader.Fill(pair_[1], &got), IoState::kOk);
    ASSERT_TRUE(got);
    Frame frame;
    while (reader.Next(&frame)) {
      frames.emplace_back(frame.type, frame.body);
    }
  }
  close(sides[0]);
  close(sides[1]);
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0], std::make_pair(FrameType::kReady, std::string("library 1")));
  EXPECT_EQ(frames[1], std::make_pair(FrameType::kResults, std::string()));
  EXPECT_EQ(frames[2], std::make_pair(FrameType::kSubmit, std::string("headbody")));
  EXPECT_EQ(reader.buffered(), 0u);
}

TEST_F(Frames, BigOnesThroughAFullSocket) {
  std::mt19937 random(7);
  FrameWriter writer;
  std::vector<std::string> sent;
  for (size_t size : {size_t{1}, size_t{20000}, size_t{3} << 20, size_t{0}, size_t{16} << 10, size_t{9} << 20}) {
    std::string body(size, '\0');
    for (char& c : body) {
      c = static_cast<char>(random());
    }
    sent.push_back("h" + body);
    writer.Append(FrameType::kSubmit, "h", body);
  }
  FrameReader reader;
  std::vector<std::string> received;
  int blocked = 0;
  while (received.size() < sent.size()) {
    ASSERT_EQ(writer.Flush(pair_[0]), IoState::kOk);
    blocked += writer.empty() ? 0 : 1;
    bool got = false;
    ASSERT_EQ(reader.Fill(pair_[1], &got), IoState::kOk);
    Frame frame;
    while (reader.Next(&frame)) {
      received.emplace_back(frame.body);
    }
  }
  EXPECT_EQ(received, sent);
  EXPECT_GT(blocked, 10);
  EXPECT_EQ(writer.pending(), 0u);
}

// A read in vain behind each was a sixth of a worker's system calls.
TEST_F(Frames, AReadThatHasRoomLeftWasTheLast) {
  FrameReader reader;
  const auto read = [&] {
    bool got = false;
    EXPECT_EQ(reader.Fill(pair_[1], &got), IoState::kOk);
    Frame frame;
    EXPECT_FALSE(reader.Next(&frame));
    return got;
  };
  EXPECT_TRUE(reader.drained());
  EXPECT_FALSE(read());
  EXPECT_TRUE(reader.drained());

  int room = 1 << 20;
  ASSERT_EQ(setsockopt(pair_[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);  // the kernel gives 400 kB
  std::string bytes("\0\0\x10\0\x02\0\0\0", 8);                                   // a frame of 1 MB
  bytes.resize(kIoSize / 2, 'x');
  for (int half = 0; half < 2; ++half) {
    ASSERT_EQ(send(pair_[0], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    EXPECT_TRUE(read());
    EXPECT_TRUE(reader.drained());
  }
  bytes.resize(kIoSize + 10'000, 'x');
  ASSERT_EQ(send(pair_[0], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_TRUE(read());
  EXPECT_FALSE(reader.drained());  // there was room for kIoSize
  EXPECT_TRUE(read());
  EXPECT_TRUE(reader.drained());
}

TEST_F(Frames, NonsenseAndEnd) {
  FrameReader reader;
  bool got = false;
  EXPECT_EQ(reader.Fill(pair_[1], &got), IoState::kOk);
  EXPECT_FALSE(got);
  ASSERT_EQ(send(pair_[0], "\x01\0\0\0\x0f\0\0\0x", 9, 0), 9);  // type 15 does not exist
  EXPECT_EQ(reader.Fill(pair_[1], &got), IoState::kOk);
  Frame frame;
  EXPECT_FALSE(reader.Next(&frame));
  EXPECT_EQ(reader.state(), IoState::kBroken);

  FrameReader large;
  ASSERT_EQ(send(pair_[0], "\xff\xff\xff\xff\x02\0\0\0", 8, 0), 8);
  EXPECT_EQ(large.Fill(pair_[1], &got), IoState::kOk);
  EXPECT_FALSE(large.Next(&frame));
  EXPECT_EQ(large.state(), IoState::kBroken);

  FrameReader ended;
  shutdown(pair_[0], SHUT_WR);
  EXPECT_EQ(ended.Fill(pair_[1], &got), IoState::kEnded);
  FrameWriter writer;
  writer.Append(FrameType::kClose, "");
  close(pair_[1]);
  pair_[1] = -1;
  EXPECT_EQ(writer.Flush(pair_[0]), IoState::kEnded);
}

TEST(CheckupBodies, ComeBackAsTheyWere) {
  CheckupRequest request;
  request.config.options = {{"host", "a"}, {"password", "secret"}};
  request.topic = "orders";
  request.form = RecordForm::kList;
  request.timeout_ms = 1500;
  CheckupRequest request_again;
  ASSERT_TRUE(DecodeCheckup(EncodeCheckup(request), &request_again));
  EXPECT_EQ(request_again.config.options, request.config.options);
  EXPECT_EQ(request_again.topic, "orders");
  EXPECT_EQ(request_again.form, RecordForm::kList);
  EXPECT_EQ(request_again.timeout_ms, 1500u);
  const std::string bytes = EncodeCheckup(request);
  EXPECT_FALSE(DecodeCheckup(bytes.substr(0, bytes.size() - 1), &request_again));

  // What a process that was taken over says is made fit to be shown, and is not more than a person reads.
  std::vector<CheckupRow> rows;
  ASSERT_TRUE(DecodeCheckupRows(
      EncodeCheckupRows({{"topic", {ErrorClass::kTopic, "CODE", "a\nb"}, std::string("x\0y", 3), "hint"}}), &rows));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].error.message, "a b");
  EXPECT_EQ(rows[0].detail.find('\0'), std::string::npos);
  rows.clear();
  EXPECT_FALSE(DecodeCheckupRows(EncodeCheckupRows(std::vector<CheckupRow>(65)), &rows));
}

TEST(Messages, RoundTrips) {
  SinkConfig config{
      "events", {{"bootstrap.servers", "a:1"}, {"sasl.password", std::string("x\0y", 3)}}, 1000, 2000, 300};
  SinkConfig config_out;
  ASSERT_TRUE(DecodeConfigure(EncodeConfigure(config), &config_out));
  EXPECT_EQ(config_out.name, config.name);
  EXPECT_EQ(config_out.options, config.options);
  EXPECT_EQ(config_out.max_message_bytes, 1000u);
  EXPECT_EQ(config_out.max_inflight_bytes, 2000u);
  EXPECT_EQ(config_out.alive_ms, 300u);
  EXPECT_FALSE(config_out.checks_server);
  EXPECT_EQ(config_out.data_directory, "");
  config.checks_server = true;
  config.data_directory = "/var/lib/postgresql/15/main";
  ASSERT_TRUE(DecodeConfigure(EncodeConfigure(config), &config_out));
  EXPECT_TRUE(config_out.checks_server);
  EXPECT_EQ(config_out.data_directory, config.data_directory);

  std::string server_run;
  ASSERT_TRUE(DecodeIdentity(EncodeIdentity("a.b.c"), &server_run));
  EXPECT_EQ(server_run, "a.b.c");
  std::vector<AskedStream> streams{{"left over", "1-1"}};
  ASSERT_TRUE(DecodeAsk(EncodeAsk({{"one", "1-2"}, {std::string("t\0o", 3), "3-4"}}), &streams));
  ASSERT_EQ(streams.size(), 2u);
  EXPECT_EQ(streams[0].stream + " " + streams[0].acknowledged, "one 1-2");
  EXPECT_EQ(streams[1].stream + " " + streams[1].acknowledged, std::string("t\0o", 3) + " 3-4");
  std::vector<StreamEnd> ends;
  ASSERT_TRUE(
      DecodeEnds(EncodeEnds({{"one", "1-2", "2-2", "1-1", true, true}, {"gone", "1-3", "", "", false}}), &ends));
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].stream + " " + ends[0].acknowledged + " " + ends[0].last + " " + ends[0].kept, "one 1-2 2-2 1-1");
  EXPECT_TRUE(ends[0].lacking);
  EXPECT_TRUE(ends[0].lost);
  EXPECT_FALSE(ends[1].lacking || ends[1].lost);
  EXPECT_EQ(ends[1].stream + " " + ends[1].last, "gone ");
  bool drop = false;
  ASSERT_TRUE(DecodeAdmit(EncodeAdmit("a.b.c", true), &server_run, &drop));
  EXPECT_TRUE(drop);
  const auto cut = [](const std::string& body) { return body.substr(0, body.size() - 1); };
  EXPECT_FALSE(DecodeIdentity(cut(EncodeIdentity("a")), &server_run));
  EXPECT_FALSE(DecodeAsk(cut(EncodeAsk({{"a", "1-1"}})), &streams));
  EXPECT_FALSE(DecodeEnds(cut(EncodeEnds({{"a", "1-1", "1-1", "1-1", false}})), &ends));
  for (const char* bad : {"abc", "1", "1-", "-", "1-1-1", "99999999999999999999-1"}) {
    EXPECT_FALSE(DecodeEnds(EncodeEnds({{"a", "1-1", bad, "1-1", false}}), &ends)) << bad;
    EXPECT_FALSE(DecodeEnds(EncodeEnds({{"a", "1-1", "1-1", bad, false}}), &ends)) << bad;
  }
  EXPECT_FALSE(DecodeAdmit(cut(EncodeAdmit("a", false)), &server_run, &drop));

  std::string packed;
  ASSERT_TRUE(PackRecord({}, &packed) && PackRecord({}, &packed));
  Batch batch{7, 3, uint64_t{1} << 40, 2, packed};
  Batch batch_out;
  ASSERT_TRUE(DecodeSubmit(EncodeSubmitHead(batch) + batch.records, &batch_out));
  EXPECT_EQ(batch_out.flow, 7u);
  EXPECT_EQ(batch_out.epoch, 3u);
  EXPECT_EQ(batch_out.first_seq, uint64_t{1} << 40);
  EXPECT_EQ(batch_out.count, 2u);
  EXPECT_EQ(batch_out.records, packed);
  // A sink makes room for as many outcomes: it believes no number that the bytes cannot hold.
  for (const uint32_t count : {3u, 30'000'000u, 0xffffffffu}) {
    batch.count = count;
    EXPECT_FALSE(DecodeSubmit(EncodeSubmitHead(batch) + batch.records, &batch_out)) << count;
  }
  batch.count = 0;
  EXPECT_TRUE(DecodeSubmit(EncodeSubmitHead(batch), &batch_out));

  std::vector<Result> results{{1, 2, 3, Outcome::kDelivered, {}},
                              {1, 5, 1, Outcome::kFailed, {ErrorClass::kTopic, "WRONGTYPE", "no stream"}},
                              {1, 6, 2, Outcome::kAborted, {}},
                              {1, 8, 1, Outcome::kAborted, {}, true}};
  std::vector<Place> places{{1, "topic", 3, "9", "10"}, {2, "stream", -1, "", ""}};
  std::vector<Place> places_out;
  std::vector<Result> results_out;
  ASSERT_TRUE(DecodeResults(EncodeResults(places, results), &places_out, &results_out));
  ASSERT_EQ(results_out.size(), 4u);
  EXPECT_EQ(results_out[2].outcome, Outcome::kAborted);
  EXPECT_FALSE(results_out[2].unsent);
  EXPECT_EQ(results_out[3].outcome, Outcome::kAborted);
  EXPECT_TRUE(results_out[3].unsent);
  EXPECT_EQ(results_out[0].count, 3u);
  EXPECT_EQ(results_out[1].outcome, Outcome::kFailed);
  EXPECT_EQ(results_out[1].error.error_class, ErrorClass::kTopic);
  EXPECT_EQ(results_out[1].error.code, "WRONGTYPE");
  EXPECT_EQ(results_out[1].error.message, "no stream");

  ASSERT_EQ(places_out.size(), 2u);
  EXPECT_EQ(places_out[0].flow, 1u);
  EXPECT_EQ(places_out[0].topic, "topic");
  EXPECT_EQ(places_out[0].partition, 3);
  EXPECT_EQ(places_out[0].first, "9");
  EXPECT_EQ(places_out[0].last, "10");
  EXPECT_EQ(places_out[1].partition, -1);

  Health health{false, {ErrorClass::kConfig, "NOAUTH", "who are you"}, 9, 4, {ErrorClass::kDestination, "W", "w"}};
  Health health_out;
  ASSERT_TRUE(DecodeHealth(EncodeHealth(health), &health_out));
  EXPECT_FALSE(health_out.up);
  EXPECT_EQ(health_out.error.code, "NOAUTH");
  EXPECT_EQ(health_out.warning.code, "W");
  EXPECT_FALSE(health_out.sending);
  EXPECT_EQ(health_out.changes, 0u);
  EXPECT_EQ(health_out.deaths, 0u);
  EXPECT_EQ(health_out.cluster, "");
  health.sending = true;
  health.cluster = "b3V0Ym94";
  ASSERT_TRUE(DecodeHealth(EncodeHealth(health), &health_out));
  EXPECT_TRUE(health_out.sending);
  EXPECT_EQ(health_out.cluster, "b3V0Ym94");
}

// The worker stores and shows them: SQL takes no malformed text and no zero bytes.
TEST(Messages, WordsOfErrorsComeOutWellFormed) {
  Error error{ErrorClass::kTopic, std::string("C\0", 2), "caf\xC3\xA9 \xC3\xFF" + std::string(9000, 'x')};
  std::vector<Place> places;
  std::vector<Result> results;
  ASSERT_TRUE(DecodeResults(EncodeResults({{7, "t\xFF", 3, std::string("1\0", 2), std::string(100, '2')}},
                                          {{1, 5, 1, Outcome::kFailed, error}}),
                            &places, &results));
  EXPECT_EQ(places[0].topic, "t?");
  EXPECT_EQ(places[0].first, "1 ");
  EXPECT_EQ(places[0].last, std::string(63, '2'));
  EXPECT_EQ(results[0].error.code, "C ");
  EXPECT_EQ(results[0].error.message.substr(0, 10), "caf\xC3\xA9 ??xx");
  EXPECT_EQ(results[0].error.message.size(), 2000u);
  Health health;
  ASSERT_TRUE(DecodeHealth(EncodeHealth({false, error, 0}), &health));
  EXPECT_EQ(health.error.message, results[0].error.message);
}

TEST(Messages, TruncatedOrAlteredAreRefused) {
  std::string configure = EncodeConfigure({"events", {{"a", "b"}}, 1, 2});
  std::string results =
      EncodeResults({{7, "topic", 3, "10", "12"}}, {{1, 2, 3, Outcome::kFailed, {ErrorClass::kTopic, "C", "m"}}});
  std::string health = EncodeHealth({false, {ErrorClass::kConfig, "C", "m"}, 0});
  SinkConfig config;
  std::vector<Place> places;
  std::vector<Result> out;
  Health health_out;
  for (size_t size = 0; size < configure.size(); ++size) {
    EXPECT_FALSE(DecodeConfigure(configure.substr(0, size), &config)) << size;
  }
  for (size_t size = 0; size < results.size(); ++size) {
    EXPECT_FALSE(DecodeResults(results.substr(0, size), &places, &out)) << size;
  }
  for (size_t size = 0; size < health.size(); ++size) {
    EXPECT_FALSE(DecodeHealth(health.substr(0, size), &health_out)) << size;
  }
  ++configure[0];  // another protocol version
  EXPECT_FALSE(DecodeConfigure(configure, &config));
  EXPECT_NE(ConfiguredVersion(configure), kProtocolVersion);
  EXPECT_EQ(ConfiguredVersion(EncodeConfigure(config)), kProtocolVersion);
  EXPECT_EQ(ConfiguredVersion(configure.substr(0, 3)), 0u);
  results[4 + 29 + 4 + 16] = 9;  // an outcome that does not exist
  EXPECT_FALSE(DecodeResults(results, &places, &out));
}

TEST(Results, NeighboursJoin) {
  std::vector<Result> results;
  AppendResult({1, 10, 2, Outcome::kDelivered, {}}, &results);
  AppendResult({1, 12, 1, Outcome::kDelivered, {}}, &results);
  AppendResult({2, 13, 1, Outcome::kDelivered, {}}, &results);  // another flow
  AppendResult({2, 14, 1, Outcome::kAborted, {}}, &results);
  AppendResult({2, 15, 1, Outcome::kAborted, {}, true}, &results);  // certainly not written: it stays apart
  AppendResult({2, 16, 2, Outcome::kAborted, {}, true}, &results);
  AppendResult({2, 18, 1, Outcome::kFailed, {ErrorClass::kTopic, "A", ""}}, &results);
  AppendResult({2, 19, 1, Outcome::kFailed, {ErrorClass::kTopic, "B", ""}}, &results);  // errors stay apart
  ASSERT_EQ(results.size(), 6u);
  EXPECT_EQ(results[0].count, 3u);
  EXPECT_EQ(results[3].count, 3u);
  EXPECT_TRUE(results[3].unsent && !results[2].unsent);
}

TEST(FlowGate, TakesOnlyHigherEpochsAfterTrouble) {
  FlowGate gate;
  EXPECT_TRUE(gate.Admits(1, 0));
  gate.Poison(1, 4);
  gate.Poison(1, 2);
  EXPECT_FALSE(gate.Admits(1, 4));
  EXPECT_FALSE(gate.Admits(1, 3));
  EXPECT_TRUE(gate.Admits(1, 5));
  EXPECT_TRUE(gate.Admits(2, 0));
}

TEST(PendingRecords, AgreesWithASetInAnyOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    PendingRecords pending;
    std::set<uint64_t> left;
    for (uint64_t batch = 0; batch < 5; ++batch) {
      pending.Add(1, static_cast<uint32_t>(batch), batch * 10, 10);
      for (uint64_t i = 0; i < 10; ++i) {
        left.insert(batch * 10 + i);
      }
    }
    while (!left.empty()) {
      auto at = std::next(left.begin(), static_cast<ptrdiff_t>(random() % left.size()));
      uint64_t first = *at;
      uint32_t count = 0;
      while (at != left.end() && *at == first + count && count < 1 + random() % 15) {
        ++count;
        at = left.erase(at);
      }
      uint32_t epoch = 99;
      ASSERT_TRUE(pending.Resolve(1, first, count, &epoch));
      EXPECT_EQ(epoch, (first + count - 1) / 10);
      EXPECT_FALSE(pending.Resolve(1, first, 1, &epoch)) << "twice";
      std::set<uint64_t> listed;
      pending.ForEach([&](uint32_t, uint32_t, uint64_t begin, uint32_t size) {
        for (uint32_t i = 0; i < size; ++i) {
          EXPECT_TRUE(listed.insert(begin + i).second);
        }
      });
      ASSERT_EQ(listed, left);
    }
    EXPECT_TRUE(pending.empty());
  }
}

TEST(PendingRecords, RefusesStrangers) {
  PendingRecords pending;
  uint32_t epoch = 0;
  EXPECT_FALSE(pending.Resolve(1, 0, 1, &epoch));
  pending.Add(1, 1, 100, 3);
  EXPECT_FALSE(pending.Resolve(2, 100, 1, &epoch));
  EXPECT_FALSE(pending.Resolve(1, 99, 1, &epoch));
  EXPECT_FALSE(pending.Resolve(1, 103, 1, &epoch));
  EXPECT_FALSE(pending.Resolve(1, 102, 2, &epoch));
  pending.Add(1, 1, 103, 2);
  EXPECT_FALSE(pending.Resolve(1, 100, 9, &epoch));
  EXPECT_EQ(pending.records(), 5u) << "a range that is not all there has no outcome";
  EXPECT_TRUE(pending.Resolve(1, 100, 5, &epoch));
  EXPECT_TRUE(pending.empty());
}

}  // namespace
}  // namespace outbox::sink
