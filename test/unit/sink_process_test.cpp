// matrix: A1s A2p A9 A12 E-9 F3 F8
// ProcessSink against a real process that is killed, exits and talks nonsense: every record gets exactly one outcome
// all the same.
#include "sink/spawn.h"
#include "sink_process_fixture.h"

#include <sys/resource.h>

namespace outbox::sink {
namespace {

TEST_F(ProcessSinkTest, DeliversAndNamesItsLibrary) {
  ProcessSink sink(executable_, Mode("deliver"));
  Driver driver(&sink);
  driver.Submit(1, 0, Some(100));
  driver.Submit(2, 0, Some(100, 100000));  // 10 MB through the socket
  ASSERT_TRUE(driver.UntilResolved());
  EXPECT_EQ(driver.Count(Outcome::kDelivered), 200u);
  EXPECT_TRUE(sink.health().up);
  EXPECT_EQ(sink.library(), "fake 1.0");
  EXPECT_EQ(sink.starts(), 1u);
}

// Of 200 records the second, fourth, ... are acknowledged first, the others 2 ms later. In which order they are told
// shows whether those first ones waited for the others. Of many tries, for a process that does not get to run waits,
// too.
TEST_F(ProcessSinkTest, AcknowledgementsWaitForWhatIsBetweenThemAndForNothingElse) {
  const auto in_order = [&](uint32_t flows) {
    ProcessSink sink(executable_, Mode("second"));
    Driver driver(&sink);
    EXPECT_TRUE(driver.Until([&] { return !sink.library().empty(); }));
    for (uint32_t i = 0; i < 200; ++i) {
      driver.Submit(1 + i * flows / 200, 0, Some(1));
    }
    EXPECT_TRUE(driver.UntilResolved());
    return std::is_sorted(driver.order().begin(), driver.order().end());
  };
  const auto ever = [&](bool order, uint32_t flows) {
    int tries = 0;
    while (tries < 50 && in_order(flows) != order) {
      ++tries;
    }
    return tries < 50;
  };
  EXPECT_TRUE(ever(true, 1)) << "a hundred gaps in one flow: they go as one, a little later";
  EXPECT_TRUE(ever(true, 2)) << "fifty gaps in each of two";
  EXPECT_TRUE(ever(false, 100)) << "two records of each: a range of each flow";
  EXPECT_TRUE(ever(false, 200)) << "a record of each: nothing comes between them";
}

TEST_F(ProcessSinkTest, StartsACleanProcess) {
  setenv("PGPASSWORD", "secret", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  sigprocmask(SIG_BLOCK, &usr1, nullptr);
  int stray = open("/dev/null", O_RDONLY);  // without close-on-exec
  ProcessSink sink(executable_, Mode("report"));
  Driver driver(&sink);
  ASSERT_TRUE(driver.Until([&] { return sink.health().error.code == "REPORT"; }));
  EXPECT_EQ(sink.health().error.message, "fds 0 1 2 3 usr1-blocked 0 own-group 1 oom 1000 secret 0");
  close(stray);
  sigprocmask(SIG_UNBLOCK, &usr1, nullptr);
  unsetenv("PGPASSWORD");
}

// Invariant 10: whatever a sink process sends that an attacker has taken over, it costs its worker little memory and
// time.
TEST_F(ProcessSinkTest, OneThatWasTakenOverCostsLittle) {
  const auto seconds = [](const rusage& use) {
    return static_cast<double>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           static_cast<double>(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
  };
  rusage start{};
  getrusage(RUSAGE_SELF, &start);
  for (const char* mode :
       {"evil-size", "evil-empty", "evil-results", "evil-places", "evil-ends", "evil-chatter", "evil-health"}) {
    rusage before{};
    getrusage(RUSAGE_SELF, &before);
    ProcessSink sink(executable_, Mode(mode));
    Driver driver(&sink);
    driver.Submit(1, 0, Some(20'000));
    uint64_t deaths = 0;
    EXPECT_TRUE(driver.Until(
        [&] {
          if (sink.health().error.code == "SINK_PROTOCOL") {
            ++deaths;
          }
          return deaths > 0;
        },
        60))
        << mode;
    rusage after{};
    getrusage(RUSAGE_SELF, &after);
    if (getenv("OUTBOX_SANITIZED") == nullptr) {
      // 16 MB, and what this test has itself. The highest that there ever was, so from the beginning: what a later mode
      // takes hides behind an earlier one.
      EXPECT_LT(after.ru_maxrss - start.ru_maxrss, 20 * 1024) << mode << ": kB";
      EXPECT_LT(seconds(after) - seconds(before), 8) << mode << ": seconds of CPU";
    }
    std::vector<Place> places;
    sink.TakePlaces(&places);
    EXPECT_LE(places.size(), 20'000u) << mode;
  }
}

TEST_F(ProcessSinkTest, KilledInFlightAbortsEverythingAndStartsAgain) {
  ProcessSink sink(executable_, Mode("hold"));
  Driver driver(&sink);
  driver.Submit(1, 4, Some(10));
  driver.Submit(2, 0, Some(5));
  ASSERT_TRUE(driver.Until([&] { return sink.library() == "fake 1.0"; }));
  EXPECT_EQ(driver.resolved(), 0u);
  pid_t first = sink.pid();
  int64_t killed_at = MonotonicMicros();
  ASSERT_EQ(kill(first, SIGKILL), 0);
  ASSERT_TRUE(driver.UntilResolved());
  EXPECT_EQ(driver.Count(Outcome::kAborted), 15u);
  EXPECT_FALSE(driver.unsent(0)) << "it had them, and may have written them";
  EXPECT_FALSE(sink.health().up);
  EXPECT_EQ(sink.health().error.code, "SINK_DIED");
  EXPECT_EQ(sink.health().error.error_class, ErrorClass::kDestination);
  ASSERT_TRUE(driver.Until([&] { return sink.health().up; }));
  EXPECT_LT(MonotonicMicros() - killed_at, 1000000) << "the first restart waits for nothing";
  EXPECT_EQ(sink.starts(), 2u);
  EXPECT_EQ(sink.health().deaths, 1u);
  EXPECT_NE(sink.pid(), first);

  // The old epoch of a flow that lost records is over, a flow that lost none goes on.
  uint64_t stale = driver.Submit(1, 4, Some(1));
  uint64_t fresh = driver.Submit(1, 5, Some(1));
  ASSERT_TRUE(driver.Until([&] { return driver.resolved() == 16; }));
  EXPECT_EQ(driver.outcome(stale), Outcome::kAborted);
  EXPECT_TRUE(driver.unsent(stale)) << "never given to a process";
  EXPECT_EQ(driver.outcome(fresh), Outcome{});
}

TEST_F(ProcessSinkTest, SaysHowItsProcessEnded) {
  ProcessSink sink(executable_, Mode("hold"));
  Driver driver(&sink);
  ASSERT_TRUE(driver.Until([&] { return !sink.library().empty(); }));
  kill(sink.pid(), SIGKILL);
  std::string seen;
  ASSERT_TRUE(driver.Until([&] {
    seen = sink.health().error.message;
    return seen.find("signal 9") != std::string::npos;
  })) << seen;
}

TEST_F(ProcessSinkTest, TellsAnExitCodeAndAProcessThatLingers) {
  const std::pair<const char*, const char*> kCases[] = {
      {"quit", "exit code 7"}, {"shut out", "reads a renewed file"}, {"linger", "did not end by itself"}};
  for (const auto& [mode, text] : kCases) {
    ProcessSink sink(executable_, Mode(mode));
    Driver driver(&sink);
    driver.Submit(1, 0, Some(3));
    ASSERT_TRUE(driver.UntilResolved());
    std::string seen;
    ASSERT_TRUE(driver.Until([&, text = text] {  // clang 14 captures no binding by itself
      seen = sink.health().error.ok() ? seen : sink.health().error.message;
      return seen.find(text) != std::string::npos;
    })) << seen;
    EXPECT_EQ(sink.health().deaths, 1u);
  }
}

// What the search for an event that kills the sink relies on: everything unresolved comes back at once and in order,
// deaths are counted, what is harmless is delivered, and deliveries between keep the restarts quick.
TEST_F(ProcessSinkTest, AnEventThatKillsItIsFoundByHalving) {
  ProcessSink sink(executable_, Mode("poison"));
  Driver driver(&sink);
  std::vector<TestRecord> records = Some(64);
  records[41].body = "poison";
  size_t begin = 0;
  size_t end = records.size();
  uint32_t epoch = 0;
  const int64_t started = MonotonicMicros();
  while (end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    const uint64_t deaths = sink.health().deaths;
    const uint64_t first = driver.Submit(1, epoch++,
                                         std::vector<TestRecord>(records.begin() + static_cast<ptrdiff_t>(begin),
                                                                 records.begin() + static_cast<ptrdiff_t>(middle)));
    const uint64_t behind = driver.Submit(2, epoch, Some(1));
    ASSERT_TRUE(driver.UntilResolved());
    if (sink.health().deaths == deaths) {
      EXPECT_EQ(driver.outcome(first), Outcome::kDelivered);
      begin = middle;
    } else {
      EXPECT_EQ(sink.health().deaths, deaths + 1);
      EXPECT_EQ(driver.outcome(first), Outcome::kAborted);
      EXPECT_EQ(driver.outcome(behind), Outcome::kAborted);
      end = middle;
    }
  }
  EXPECT_EQ(begin, 41u);
  EXPECT_LT(MonotonicMicros() - started, 3000000);
  EXPECT_TRUE(std::is_sorted(driver.order().begin(), driver.order().end()));
}

TEST_F(ProcessSinkTest, PlacesComeWithTheirOutcomes) {
  ProcessSink sink(executable_, Mode("deliver"));
  Driver driver(&sink);
  uint64_t told_to = 0;
  for (int i = 0; i < 50; ++i) {
    driver.Submit(7, 0, Some(100));
    driver.Turn(0);
    const uint64_t delivered = driver.Count(Outcome::kDelivered);
    told_to = driver.places().empty() ? 0 : std::stoull(driver.places().back().last) + 1;
    ASSERT_EQ(told_to, delivered);
  }
  ASSERT_TRUE(driver.UntilResolved());
  Places merged;
  for (const Place& place : driver.places()) {
    merged.Add(place);
  }
  std::vector<Place> places;
  merged.Take(&places);
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].flow, 7u);
  EXPECT_EQ(places[0].topic, "fake");
  EXPECT_EQ(places[0].partition, 1);
  EXPECT_EQ(places[0].first, "0");
  EXPECT_EQ(places[0].last, "4999");
}

TEST_F(ProcessSinkTest, BacksOffWhileItKeepsDying) {
  ProcessSink sink(executable_, Mode("die"));
  Driver driver(&sink);
  int64_t begin = MonotonicMicros();
  for (uint32_t epoch = 0; epoch < 5; ++epoch) {
    driver.Submit(1, epoch, Some(1));
    ASSERT_TRUE(driver.UntilResolved());
    EXPECT_EQ(driver.outcome(epoch), Outcome::kAborted);
    EXPECT_EQ(sink.health().deaths, epoch + 1);
  }
  EXPECT_GE(sink.starts(), 5u);
  EXPECT_GT(MonotonicMicros() - begin, 150000) << "deaths two to four wait at least 50 ms each";
  EXPECT_FALSE(sink.health().up);
}

TEST_F(ProcessSinkTest, NonsenseFromTheProcessIsTheSameAsDeath) {
  for (const char* mode : {"garbage", "twice"}) {
    ProcessSink sink(executable_, Mode(mode));
    Driver driver(&sink);
    driver.Submit(1, 0, Some(3));
    ASSERT_TRUE(driver.UntilResolved());
    ASSERT_TRUE(driver.Until([&] { return !sink.health().up; })) << mode;
    EXPECT_EQ(sink.health().error.code, "SINK_PROTOCOL");
    ASSERT_TRUE(driver.Until([&] { return sink.starts() == 2; }));
  }
}

TEST_F(ProcessSinkTest, AConfigurationErrorIsHealthAndNotACrash) {
  ProcessSink sink(executable_, Mode("refuse"));
  Driver driver(&sink);
  ASSERT_TRUE(driver.Until([&] { return !sink.health().up; }));
  EXPECT_EQ(sink.health().error.error_class, ErrorClass::kConfig);
  EXPECT_EQ(sink.health().error.code, "BAD_OPTION");
  driver.Submit(1, 0, Some(3));
  driver.Submit(1, 0, Some(2));
  ASSERT_TRUE(driver.UntilResolved());
  EXPECT_EQ(driver.Count(Outcome::kAborted), 5u);
  EXPECT_EQ(sink.starts(), 1u);
}

// No thread was to be had, a file was not there: the same process tries again. Nothing of an epoch that was aborted
// passes then.
TEST_F(ProcessSinkTest, ASinkThatCannotBeMadeIsMadeLater) {
  const std::string file = directory_ + "/now";
  ProcessSink sink(executable_, {"test", {{"mode", "late"}, {"file", file}}, 0, 0});
  Driver driver(&sink);
  ASSERT_TRUE(driver.Until([&] { return !sink.health().up; }));
  EXPECT_EQ(sink.health().error.code, "NO_THREAD");
  EXPECT_EQ(sink.health().error.error_class, ErrorClass::kDestination);
  driver.Submit(1, 0, Some(3));
  ASSERT_TRUE(driver.UntilResolved());
  EXPECT_EQ(driver.Count(Outcome::kAborted), 3u);
  close(open(file.c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_TRUE(driver.Until([&] { return sink.health().up; }));
  const uint64_t stale = driver.Submit(1, 0, Some(1));
  const uint64_t fresh = driver.Submit(1, 1, Some(1));
  const uint64_t other = driver.Submit(2, 0, Some(1));
  ASSERT_TRUE(driver.UntilResolved());
  EXPECT_EQ(driver.outcome(stale), Outcome::kAborted);
  EXPECT_EQ(driver.outcome(fresh), Outcome::kDelivered);
  EXPECT_EQ(driver.outcome(other), Outcome::kDelivered);
  EXPECT_EQ(sink.starts(), 1u);
  ASSERT_FALSE(driver.places().empty());
  EXPECT_EQ(driver.places().back().topic, "fake");
  unlink(file.c_str());
}

TEST_F(ProcessSinkTest, AMissingExecutableIsReportedAndRetried) {
  ProcessSink sink("/nonexistent/outbox-sink", Mode("deliver"));
  Driver driver(&sink);
  EXPECT_FALSE(sink.health().up);
  EXPECT_EQ(sink.health().error.code, "SINK_START");
  driver.Submit(1, 0, Some(3));
  ASSERT_TRUE(driver.UntilResolved());
  EXPECT_EQ(driver.Count(Outcome::kAborted), 3u);
  EXPECT_GE(sink.starts(), 2u);
}

TEST_F(ProcessSinkTest, AProgramThatWasBrokenWhenItWasKeptIsLeftForTheOneInItsPlace) {
  struct Broken {
    const char* text;
    mode_t mode;
    const char* code;
  };
  const std::string good = directory_ + "/good";
  ASSERT_EQ(rename(executable_.c_str(), good.c_str()), 0);
  int number = 0;
  for (const Broken& broken : {Broken{"", 0644, "SINK_START"}, Broken{"", 0755, "SINK_START"},
                               Broken{"#!/bin/sh\nexit 127\n", 0755, "SINK_DIED"}}) {
    const std::string folder = directory_ + "/" + std::to_string(number++);
    const std::string program = folder + "/fake-sink";
    ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
    std::ofstream(program) << broken.text;
    ASSERT_EQ(chmod(program.c_str(), broken.mode), 0);
    KeepProgram(program);
    {
      ProcessSink sink(program, Mode("deliver"));
      Driver driver(&sink);
      ASSERT_TRUE(driver.Until([&] { return sink.health().error.code == broken.code && sink.starts() > 1; })) << number;
      ASSERT_EQ(symlink(good.c_str(), (program + ".new").c_str()), 0);
      ASSERT_EQ(rename((program + ".new").c_str(), program.c_str()), 0);
      EXPECT_TRUE(driver.Until([&] { return sink.health().up; })) << number << ": " << sink.health().error.message;
    }
    unlink(program.c_str());
    rmdir(folder.c_str());
  }
  unlink(good.c_str());
}

// Not for what somebody else did to it, nor once it was ready.
TEST_F(ProcessSinkTest, AKeptProgramIsNotLeftBecauseItIsKilled) {
  const std::string good = directory_ + "/good";
  ASSERT_EQ(rename(executable_.c_str(), good.c_str()), 0);
  ASSERT_EQ(symlink(good.c_str(), executable_.c_str()), 0);
  KeepProgram(executable_);
  const std::string started = directory_ + "/started";
  unlink(executable_.c_str());
  std::ofstream(executable_) << "#!/bin/sh\ntouch " << started << "\n";
  ASSERT_EQ(chmod(executable_.c_str(), 0755), 0);
  for (const char* mode : {"crash by SIGKILL", "die"}) {
    ProcessSink sink(executable_, Mode(mode));
    Driver driver(&sink);
    uint32_t epoch = 0;
    ASSERT_TRUE(driver.Until([&] {
      driver.Submit(1, epoch++, Some(1));
      return sink.health().deaths > 2;
    })) << mode;
  }
  EXPECT_NE(access(started.c_str(), F_OK), 0);
  unlink(good.c_str());
}

TEST_F(ProcessSinkTest, CloseIsQuickEvenWhenTheProcessIsStopped) {
  for (int stop : {0, SIGSTOP}) {
    ProcessSink sink(executable_, Mode("hold"));
    Driver driver(&sink);
    driver.Submit(1, 0, Some(3));
    ASSERT_TRUE(driver.Until([&] { return !sink.library().empty(); }));
    if (stop != 0) {
      kill(sink.pid(), stop);
    }
    int64_t begin = MonotonicMicros();
    sink.Close();
    EXPECT_LT(MonotonicMicros() - begin, 250000);
    EXPECT_EQ(sink.pid(), -1) << "reaped";
    driver.Turn(0);
    EXPECT_EQ(driver.resolved(), 0u) << "nothing is reported after Close";
  }
}

TEST_F(ProcessSinkTest, TheProcessEndsWithItsParent) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  pid_t parent = fork();
  if (parent == 0) {
    ProcessSink sink(executable_, Mode("hold"));
    Driver driver(&sink);
    driver.Until([&] { return !sink.library().empty(); });
    pid_t child = sink.pid();
    [[maybe_unused]] ssize_t written = write(pipe_fds[1], &child, sizeof(child));
    kill(getpid(), SIGKILL);
  }
  close(pipe_fds[1]);
  pid_t child = 0;
  ASSERT_EQ(read(pipe_fds[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  close(pipe_fds[0]);
  int status = 0;
  waitpid(parent, &status, 0);
  auto alive = [child] {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string id, name, state;
    return stat >> id >> name >> state && state != "Z";
  };
  int64_t end = MonotonicMicros() + 5000000;
  while (alive() && MonotonicMicros() < end) {
    usleep(1000);
  }
  EXPECT_FALSE(alive());
}

TEST_F(ProcessSinkTest, SignalsToTheGroupOfAWorkerDoNotReachIt) {
  ProcessSink sink(executable_, Mode("deliver"));
  Driver driver(&sink);
  ASSERT_TRUE(driver.Until([&] { return !sink.library().empty(); }));
  for (int signal_number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE}) {
    kill(sink.pid(), signal_number);
  }
  driver.Submit(1, 0, Some(3));
  ASSERT_TRUE(driver.UntilResolved());
  EXPECT_EQ(driver.Count(Outcome::kDelivered), 3u);
  EXPECT_EQ(sink.starts(), 1u);
}

// Both ends are interrupted wherever they wait, start processes and move bytes.
TEST_F(ProcessSinkTest, DeliversThroughAStormOfSignals) {
  ProcessSink sink(executable_, Mode("deliver"));
  Driver driver(&sink);
  const auto send = [&](int signal_number) {
    if (sink.pid() > 0) {
      kill(sink.pid(), signal_number);
    }
  };
  {
    SignalStorm storm;
    uint32_t epoch = 0;
    for (int round = 0; round < 20; ++round) {
      driver.Submit(1, epoch, Some(50, 20000));
      if (round % 5 == 4) {
        send(SIGKILL);
        ASSERT_TRUE(driver.UntilResolved());
        ++epoch;
      }
      send(SIGSTOP);  // a process that goes on after a stop has its waits interrupted
      send(SIGCONT);
      driver.Turn(0);
    }
    ASSERT_TRUE(driver.UntilResolved(30));
    EXPECT_GT(storm.count(), 10);
  }
  EXPECT_EQ(driver.resolved(), 1000u);
  EXPECT_GT(driver.Count(Outcome::kDelivered), 0u);
  EXPECT_NE(sink.health().error.code, "SINK_PROTOCOL");
}

}  // namespace
}  // namespace outbox::sink
