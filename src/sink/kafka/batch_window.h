// How many bytes of a topic may be in flight in each partition, learnt from batches that brokers refused [-].
//
// After a refusal it is one record at first, so that a refused record is alone in its batch and the refusal is its own.
// Bytes are those of RecordBytes() (topic.h); times are monotonic microseconds. Survives producers.
#pragma once

#include <cstdint>

namespace outbox::sink::kafka {

class BatchWindow {
 public:
  // `raise_micros`: until larger batches are tried the first time.
  explicit BatchWindow(int64_t raise_micros) : raise_after_(raise_micros) {}

  uint64_t bytes() const { return bytes_; }  // 0: no limit
  bool Admits(uint64_t inflight, uint64_t more) const { return bytes_ == 0 || inflight + more <= bytes_; }

  // A batch was refused, and any of its records may be why. `too_large`: rather its size than one of them.
  void Refused(uint32_t count, uint64_t bytes, bool too_large, int64_t now);
  // The topic's settings allow no batch larger than this.
  void Limit(uint64_t most);
  void Acknowledged(uint32_t count, uint64_t bytes, int64_t now);

 private:
  uint64_t bytes_ = 0;
  uint64_t ceiling_ = 0;   // what it grows to: below what was too large; kNoCeiling: then there is no limit any more
  uint64_t suspects_ = 0;  // it stays at one record until so many were acknowledged
  // A topic's limit may be raised: from raise_at_ on the ceiling doubles every few seconds until something is refused
  // again; then the next try waits twice as long.
  int64_t raise_at_ = 0;
  int64_t raise_after_;
  bool raised_ = false;
};

}  // namespace outbox::sink::kafka
