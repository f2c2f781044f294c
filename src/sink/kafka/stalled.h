// The search for topics that take nothing: a partition without a leader, or with too few replicas, gives no report at
// all [-]. stalled.cpp has the steps, which are KafkaSink's. Times are monotonic microseconds.
#pragma once

#include <cstdint>

namespace outbox::sink::kafka {

struct Topic;

// Whether one of its records is in the library since before `since`, and nothing of its partition was acknowledged
// after.
bool Waits(const Topic& topic, int64_t since);

struct StalledSearch {
  int64_t next_at = 0;        // when to look next
  int64_t asking_since = 0;   // since when the cluster is asked about topics that may be stalled; 0: it is not
  int64_t early_at = 0;       // while other topics wait, none of a broker that refuses ends a producer sooner before
  int64_t sending_until = 0;  // something goes out slowly
  int64_t lingers_until = 0;  // the library may keep back what it was given last, to fill a batch
  bool asks = false;          // there are topics of which the cluster is, or will be, asked each second
  bool found = false;         // the producer ends because of them
};

}  // namespace outbox::sink::kafka
