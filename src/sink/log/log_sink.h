// A sink that writes one line per event and reports it as delivered [-]: first steps without a broker (outbox_log).
//
//   outbox.event.order key=42 payload={"total": 129.97} id=0198... type=order.created aggregate_type=order ...
//
// Control characters and bytes that are not UTF-8 appear as \n, \t, \x1b: an event can neither forge a line of the
// server log nor break its encoding.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sink/flow_gate.h"
#include "sink/kind.h"
#include "sink/record.h"
#include "sink/sink.h"

namespace outbox::sink {

class LogSink : public Sink {
 public:
  // `options`: body_limit, the bytes of each payload to print.
  LogSink(const Options& options, WriteLine write_line);

  void Submit(Batch batch) override;  // writes at once
  void Poll(std::vector<Result>* results) override;
  void AppendWaits(std::vector<WaitSpec>* waits) override;
  const Health& health() const override { return health_; }
  void Close() override;

 private:
  const size_t body_limit_;
  const WriteLine write_line_;
  const Health health_;
  FlowGate gate_;
  std::vector<Result> results_;
  std::string line_;
};

// The line of one record.
void FormatRecordLine(const Record& record, size_t body_limit, std::string* line);

}  // namespace outbox::sink
