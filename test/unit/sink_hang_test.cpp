// matrix: A1s A1h
// Which process of a ProcessSink lives on, and when the next one is started: hangs, repeated blows.
#include "sink_process_fixture.h"

namespace outbox::sink {
namespace {

TEST_F(ProcessSinkTest, AProcessThatHangsIsKilledAndReplaced) {
  for (const char* mode : {"hold", "spin"}) {
    SinkConfig config = Mode(mode);
    config.alive_ms = 200;
    ProcessSink sink(executable_, config);
    Driver driver(&sink);
    ASSERT_TRUE(driver.Until([&] { return !sink.library().empty(); }));
    driver.Submit(1, 0, Some(3));
    driver.Turn();
    const pid_t first = sink.pid();
    const int64_t begin = MonotonicMicros();
    if (std::string_view(mode) == "hold") {
      kill(first, SIGSTOP);
    }
    Error seen;
    ASSERT_TRUE(driver.Until([&] {
      seen = sink.health().error.ok() ? seen : sink.health().error;
      return sink.starts() == 2 && sink.health().up;
    })) << mode;
    EXPECT_EQ(seen.code, "SINK_HUNG");
    EXPECT_EQ(seen.error_class, ErrorClass::kDestination);
    EXPECT_EQ(driver.Count(Outcome::kAborted), 3u);
    EXPECT_GE(MonotonicMicros() - begin, 700'000);
    EXPECT_LT(MonotonicMicros() - begin, 3'000'000);
    EXPECT_EQ(sink.health().deaths, 1u);
    EXPECT_EQ(sink.health().unready_deaths, 0u);
    EXPECT_EQ(kill(first, 0), -1) << "killed and reaped";
  }
}

TEST_F(ProcessSinkTest, OneThatHasNothingToSayOrIsStoppedForAMomentIsNotHung) {
  SinkConfig config = Mode("hold");
  config.alive_ms = 200;
  ProcessSink sink(executable_, config);
  Driver driver(&sink);
  driver.Submit(1, 0, Some(3));
  ASSERT_TRUE(driver.Until([&] { return !sink.library().empty(); }));
  const auto turn_for = [&](int64_t micros) {
    const int64_t until = MonotonicMicros() + micros;
    driver.Until([&] { return MonotonicMicros() >= until; });
  };
  turn_for(1'500'000);
  kill(sink.pid(), SIGSTOP);
  turn_for(200'000);
  kill(sink.pid(), SIGCONT);
  turn_for(200'000);
  // The whole machine was paused, as it were.
  kill(sink.pid(), SIGSTOP);
  usleep(1'800'000);
  driver.Turn(0);
  kill(sink.pid(), SIGCONT);
  turn_for(300'000);
  EXPECT_EQ(sink.starts(), 1u);
  EXPECT_TRUE(sink.health().up);
  EXPECT_EQ(driver.resolved(), 0u);
}

// It is killed every now and then, before it has delivered anything: it does not come back later and later.
TEST_F(ProcessSinkTest, AProcessThatWasWellForAWhileComesBackQuickly) {
  ProcessSink sink(executable_, Mode("hold"));
  Driver driver(&sink);
  ASSERT_TRUE(driver.Until([&] { return !sink.library().empty(); }));
  int64_t away = 0;
  for (int i = 0; i < 9; ++i) {
    const int64_t well_until = MonotonicMicros() + 350'000;
    driver.Until([&] { return MonotonicMicros() >= well_until; });
    const uint64_t starts = sink.starts();
    const int64_t killed_at = MonotonicMicros();
    kill(sink.pid(), SIGKILL);
    ASSERT_TRUE(driver.Until([&] { return sink.starts() > starts && !sink.library().empty(); }));
    away += MonotonicMicros() - killed_at;
  }
  EXPECT_LT(away, 4'500'000);  // with delays that double it would be 8 s
}

TEST_F(ProcessSinkTest, ItTellsWhetherItDiedBeforeItCouldLookAtAnything) {
  for (const char* mode : {"crash", "crash by SIGKILL"}) {
    ProcessSink crashes(executable_, Mode(mode));
    Driver driver(&crashes);
    driver.Submit(1, 0, Some(3));
    ASSERT_TRUE(driver.UntilResolved());
    EXPECT_EQ(crashes.health().deaths, 1u);
    EXPECT_EQ(crashes.health().unready_deaths, 1u);
    EXPECT_EQ(crashes.health().kills, 0u);
    EXPECT_EQ(crashes.health().unready_kills, strcmp(mode, "crash") == 0 ? 0u : 1u);
  }
  ProcessSink dies(executable_, Mode("die"));
  Driver other(&dies);
  other.Submit(1, 0, Some(3));  // in one read with the configuration, perhaps
  ASSERT_TRUE(other.UntilResolved());
  EXPECT_EQ(dies.health().deaths, 1u);
  EXPECT_EQ(dies.health().unready_deaths, 0u);
}

// Only a SIGKILL from outside says nothing about the records; all of it is known when their outcomes come. (Signals
// that no sanitizer takes for a find of its own.)
TEST_F(ProcessSinkTest, ItTellsWhetherItWasKilledFromOutside) {
  for (const int signal_number : {SIGKILL, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
    ProcessSink sink(executable_, Mode("hold"));
    Driver driver(&sink);
    driver.Submit(1, 0, Some(3));
    ASSERT_TRUE(driver.Until([&] { return !sink.library().empty(); }));
    kill(sink.pid(), signal_number);
    ASSERT_TRUE(driver.Until([&] {
      EXPECT_TRUE(driver.resolved() == 0 || sink.health().deaths == 1);
      return driver.resolved() == 3;
    }));
    EXPECT_EQ(driver.Count(Outcome::kAborted), 3u);
    EXPECT_EQ(sink.health().deaths, 1u);
    EXPECT_EQ(sink.health().unready_deaths, 0u);
    EXPECT_EQ(sink.health().kills, signal_number == SIGKILL ? 1u : 0u) << signal_number;
  }
  for (const char* mode : {"spin", "linger", "quit"}) {  // the first two are killed by its owner
    SinkConfig config = Mode(mode);
    config.alive_ms = 40;
    ProcessSink sink(executable_, config);
    Driver driver(&sink);
    driver.Submit(1, 0, Some(3));
    ASSERT_TRUE(driver.UntilResolved()) << mode;
    EXPECT_EQ(sink.health().deaths, 1u);
    EXPECT_EQ(sink.health().kills, 0u) << mode;
  }
}

// A sink that holds everything makes the server stop reading; what it resolves makes it read on.
TEST(Serve, StopsReadingWhenTheSinkHoldsTooMuch) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
  pid_t child = fork();
  if (child == 0) {
    close(pair[0]);
    dup2(pair[1], kSinkSocket);
    SinkProgram program{"fake 1.0", MakeFake};
    _exit(Serve(program, 1 << 20));
  }
  close(pair[1]);
  FrameWriter writer;
  writer.Append(FrameType::kConfigure, EncodeConfigure({"test", {{"mode", "hold"}}, 0, 0, 20}));
  for (uint64_t i = 0; i < 64; ++i) {
    Batch batch{1, 0, i, 1, {}};
    std::string records;
    Pack({"topic", "key", std::string(256 << 10, 'x'), RecordForm::kStream, {}}, &records);
    writer.Append(FrameType::kSubmit, EncodeSubmitHead(batch), std::move(records));
  }
  size_t total = writer.pending();
  size_t last = total;
  for (int64_t quiet_since = MonotonicMicros(); MonotonicMicros() - quiet_since < 200000;) {
    ASSERT_EQ(writer.Flush(pair[0]), IoState::kOk);
    if (writer.pending() != last) {
      last = writer.pending();
      quiet_since = MonotonicMicros();
    }
    usleep(1000);
  }
  EXPECT_GT(last, total / 2) << "the server took more than its limit and the socket's buffers";
  // It is heard all the same.
  FrameReader reader;
  int alive = 0;
  for (const int64_t until = MonotonicMicros() + 300'000; MonotonicMicros() < until; usleep(1000)) {
    bool got = false;
    ASSERT_EQ(reader.Fill(pair[0], &got), IoState::kOk);
    for (Frame frame; reader.Next(&frame);) {
      alive += frame.type == FrameType::kAlive ? 1 : 0;
    }
  }
  EXPECT_GT(alive, 3);
  close(pair[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace outbox::sink
