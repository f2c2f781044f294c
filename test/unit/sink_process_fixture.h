// A ProcessSink with a real process: the test program itself under the name "fake-sink", with a sink that does as its
// options say. Included by one file of a program: main() is here.
#pragma once

#include "sink/process_sink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "signal_storm.h"
#include "sink/places.h"
#include "sink/serve.h"
#include "sink_driver.h"

namespace outbox::sink {
namespace {

// mode: deliver, hold, die (at the first batch), report (delivers and says in health what it sees of its process),
// poison (aborts on the payload "poison"), quit (exit code 7 at the first batch), shut out (kExitShutOut then), linger
// (closes its socket, stays), spin (an endless loop at the first batch), crash (before it is ready), refuse, late
// (cannot be made before there is `file`), second (acknowledges the second, fourth, ... batch at once, and the others
// 2 ms after the first of them).
class FakeSink : public Sink {
 public:
  explicit FakeSink(std::string mode) : mode_(std::move(mode)) {
    if (mode_ == "report") {
      health_ = {false, {ErrorClass::kDestination, "REPORT", Report()}, 1};
    }
  }
  void Submit(Batch batch) override {
    if (mode_ == "die") {
      signal(SIGSEGV, SIG_DFL);  // a sanitizer would take it for a find
      kill(getpid(), SIGSEGV);
    }
    if (mode_ == "quit") {
      _exit(7);
    }
    if (mode_ == "shut out") {
      _exit(kExitShutOut);
    }
    while (mode_ == "spin") {
      getppid();
    }
    if (mode_ == "linger") {
      close(kSinkSocket);
      for (;;) {
        pause();
      }
    }
    if (mode_ == "poison" && batch.records.find("poison") != std::string::npos) {
      abort();
    }
    if (mode_ == "deliver") {
      places_.Add(batch.flow, "fake", 1, std::to_string(batch.first_seq),
                  std::to_string(batch.first_seq + batch.count - 1));
    }
    if (mode_ == "garbage") {
      [[maybe_unused]] ssize_t sent = send(kSinkSocket, "garbage!garbage!", 16, 0);
    }
    if (mode_.starts_with("evil")) {
      Attack(batch);
    }
    if (mode_ == "twice") {
      results_.push_back({batch.flow, batch.first_seq, batch.count, Outcome::kDelivered, {}});
    }
    if (mode_ == "second" && batch.first_seq % 2 == 0) {
      late_at_ = late_.empty() ? MonotonicMicros() + 2'000 : late_at_;
      late_.push_back({batch.flow, batch.first_seq, batch.count, Outcome::kDelivered, {}});
    } else if (mode_ != "hold" && mode_ != "spin") {
      results_.push_back({batch.flow, batch.first_seq, batch.count, Outcome::kDelivered, {}});
    }
  }
  void Poll(std::vector<Result>* results) override {
    results->insert(results->end(), results_.begin(), results_.end());
    results_.clear();
    if (!late_.empty() && MonotonicMicros() >= late_at_) {
      results->insert(results->end(), late_.begin(), late_.end());
      late_.clear();
    }
  }
  void AppendWaits(std::vector<WaitSpec>* waits) override {
    if (!late_.empty()) {
      waits->push_back({-1, false, false, late_at_});
    }
  }
  void TakePlaces(std::vector<Place>* places) override { places_.Take(places); }
  const Health& health() const override { return health_; }
  void Close() override {}

 private:
  // An attacker's code in the process: writes frames of its own until the worker gives up.
  void Attack(const Batch& batch) {
    FrameWriter writer;
    std::string frame;
    if (mode_ == "evil-empty") {  // a whole frame of nothing
      frame = EncodeResults(std::vector<Place>((size_t{4} << 20) / 20 - 8), {});
    } else if (mode_ == "evil-results") {
      frame = EncodeResults({}, std::vector<Result>(100'000));
    } else if (mode_ == "evil-ends") {
      frame = EncodeEnds(std::vector<StreamEnd>(240'000));
    }
    for (uint64_t round = 0;; ++round) {
      if (mode_ == "evil-size") {  // a header that claims half a gigabyte
        const char header[kFrameHeader] = {0, 0, 0, 0x1f, static_cast<char>(FrameType::kResults), 0, 0, 0};
        frame.assign(1 << 20, 'x');
        [[maybe_unused]] ssize_t sent = send(kSinkSocket, header, sizeof(header), MSG_NOSIGNAL);
      }
      if (mode_ == "evil-places") {
        std::vector<Place> places;
        for (int i = 0; i < 1000; ++i) {
          places.push_back({batch.flow, std::string(1900, 'x') + std::to_string(round * 1000 + i), -1, "1-1", "1-1"});
        }
        frame = EncodeResults(places, {});
      }
      if (mode_ == "evil-chatter") {
        for (int i = 0; i < 10000; ++i) {
          writer.Append(FrameType::kAlive, {});
        }
      } else if (mode_ == "evil-health") {
        // Many at once: one that is sent alone may come so slowly, on a busy machine, that nobody minds.
        for (int i = 0; i < 1000; ++i) {
          writer.Append(FrameType::kHealth, EncodeHealth({i % 2 == 0, {}}));
        }
      } else {
        writer.Append(mode_ == "evil-ends" ? FrameType::kEnds : FrameType::kResults, {}, frame);
      }
      while (!writer.empty()) {
        if (writer.Flush(kSinkSocket) != IoState::kOk) {
          _exit(0);
        }
        poll(nullptr, 0, writer.empty() ? 0 : 1);
      }
    }
  }
  static std::string Report() {
    std::string open;
    for (int fd = 0; fd < 256; ++fd) {
      if (fcntl(fd, F_GETFD) >= 0) {
        open += std::to_string(fd) + " ";
      }
    }
    sigset_t mask;
    sigprocmask(SIG_BLOCK, nullptr, &mask);
    std::string oom;
    std::ifstream("/proc/self/oom_score_adj") >> oom;
    return "fds " + open + "usr1-blocked " + std::to_string(sigismember(&mask, SIGUSR1)) + " own-group " +
           std::to_string(getpgrp() == getpid()) + " oom " + oom + " secret " +
           std::to_string(getenv("PGPASSWORD") != nullptr);
  }
  const std::string mode_;
  Health health_;
  std::vector<Result> results_;
  std::vector<Result> late_;
  int64_t late_at_ = 0;  // when those are acknowledged
  Places places_;
};

Status MakeFake(const SinkConfig& config, std::unique_ptr<Sink>* sink) {
  std::string mode = config.options.at("mode");
  if (mode == "refuse") {
    return Status(ErrorClass::kConfig, "BAD_OPTION", "no such thing");
  }
  if (mode == "crash") {
    _exit(7);
  }
  if (mode == "crash by SIGKILL") {
    kill(getpid(), SIGKILL);
  }
  if (mode == "late") {
    if (access(config.options.at("file").c_str(), F_OK) != 0) {
      return Status(ErrorClass::kDestination, "NO_THREAD", "no thread is to be had");
    }
    mode = "deliver";
  }
  *sink = std::make_unique<FakeSink>(mode);
  return {};
}

class ProcessSinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char directory[] = "/tmp/outbox-sink-test-XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    directory_ = directory;
    executable_ = directory_ + "/fake-sink";
    char self[4096] = {};
    ASSERT_GT(readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
    ASSERT_EQ(symlink(self, executable_.c_str()), 0);
  }
  void TearDown() override {
    unlink(executable_.c_str());
    rmdir(directory_.c_str());
    int status = 0;
    EXPECT_EQ(waitpid(-1, &status, WNOHANG), -1) << "a child was left behind";
  }
  SinkConfig Mode(const char* mode) { return {"test", {{"mode", mode}}, 0, 0}; }

  std::string directory_;
  std::string executable_;
};

std::vector<TestRecord> Some(size_t count, size_t size = 10) {
  return std::vector<TestRecord>(count, TestRecord{"topic", "key", std::string(size, 'x'), RecordForm::kStream, {}});
}

}  // namespace
}  // namespace outbox::sink

int main(int argc, char** argv) {
  if (std::string_view(argv[0]).ends_with("/fake-sink")) {
    outbox::sink::SinkProgram program{"fake 1.0", outbox::sink::MakeFake};
    return outbox::sink::Serve(program);
  }
  signal(SIGPIPE, SIG_IGN);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
