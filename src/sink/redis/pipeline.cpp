#include "sink/redis/pipeline.h"

#include <utility>

#include "base/monotonic.h"
#include "sink/redis/errors.h"
#include "sink/redis/reply.h"

namespace outbox::sink {
namespace {

constexpr int64_t kLongestStep = 500 * 1000;

}  // namespace

void Pipeline::Send(std::string_view command, Handler handler, size_t longest) {
  if (awaited_.empty()) {
    quiet_since_ = MonotonicMicros();
  }
  awaited_.push_back({std::move(handler), longest});
  connection_.Send(command);
}

Status Pipeline::Pump() {
  Status moved = connection_.Pump();
  if (connection_.TakeProgress()) {
    quiet_since_ = MonotonicMicros();
  }
  return moved;
}

Status Pipeline::HandleReplies() {
  while (true) {
    ReplyPtr reply;
    Status parsed = connection_.NextReply(&reply, awaited_.empty() ? kUsualReply : awaited_.front().longest);
    if (!parsed.ok() || reply == nullptr) {
      return parsed;
    }
    if (awaited_.empty()) {  // "max number of clients reached" comes unasked
      return IsError(*reply) ? Status(ReplyError(Text(*reply)))
                             : Status(ErrorClass::kDestination, "PROTOCOL", "the Redis server sent something unasked");
    }
    const Handler handler = std::move(awaited_.front().handler);
    awaited_.pop_front();
    handler(*reply);
  }
}

void Pipeline::Drop() {
  connection_.Drop();
  awaited_.clear();
}

void Pipeline::CountPause() {
  const int64_t now = MonotonicMicros();
  const int64_t step = now - std::exchange(counted_at_, now);
  if (!awaited_.empty() && step > kLongestStep) {
    quiet_since_ += step - kLongestStep;
  }
}

int64_t Pipeline::CountPauseBy() const {
  return counted_at_ + kLongestStep;
}

}  // namespace outbox::sink
