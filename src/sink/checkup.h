// Trying a destination out while the caller waits [-]: connect, log in, look at a topic; nothing is written there.
//
// outbox.test_server() starts the kind's program for one checkup and kills it afterwards. The program's part may block
// (SinkProgram::checkup): the owner's deadline is what ends it. So there is no thread, signal or client library in the
// backend that asks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sink/child_process.h"
#include "sink/protocol.h"
#include "sink/record.h"

namespace outbox::sink {

struct CheckupRequest {
  SinkConfig config;
  std::string topic;  // "": none is looked at
  RecordForm form = RecordForm::kStream;
  uint32_t timeout_ms = 0;
};

// One thing that was looked at, in the order in which it was.
struct CheckupRow {
  std::string check;   // "connection", "login", "server", "topic", "rights", "producer id"
  Error error;         // ok(): all is well with it
  std::string detail;  // what was found; of an error its message says that
  std::string hint;    // what to do, a sentence; "": nothing
};

std::string EncodeCheckup(const CheckupRequest& request);
bool DecodeCheckup(std::string_view body, CheckupRequest* request);
std::string EncodeCheckupRows(const std::vector<CheckupRow>& rows);
bool DecodeCheckupRows(std::string_view body, std::vector<CheckupRow>* rows);

// One checkup in a process of its own. Nothing here blocks but the destructor: it kills the process and reaps it, in
// 200 ms at most; so does Poll(), once, where another program is to be tried.
class Checkup {
 public:
  // `executable` is an absolute path.
  Checkup(const std::string& executable, const CheckupRequest& request);
  ~Checkup();
  Checkup(const Checkup&) = delete;
  Checkup& operator=(const Checkup&) = delete;

  // Moves bytes; call when fd() is readable, or writable where it wants to write.
  void Poll();
  bool done() const { return done_; }
  int fd() const { return process_.fd(); }
  bool wants_write() const { return !writer_.empty(); }
  // What was found, once it is done; before, that no answer came.
  std::vector<CheckupRow> TakeRows();

 private:
  void Start();
  void Died();
  void Fail(const char* code, std::string message);

  const std::string executable_;
  const std::string question_;
  ChildProcess process_;
  FrameReader reader_;
  FrameWriter writer_;
  std::vector<CheckupRow> rows_;
  bool tried_other_ = false;
  bool done_ = false;
};

}  // namespace outbox::sink
