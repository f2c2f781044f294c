// What one topic has in a pipeline: needed when it leaves its lane. The rest of Pipeline is in pipeline.cpp.
#include "relay/lane/pipeline.h"

namespace outbox::relay {

namespace {

constexpr size_t kMaxMarks = 64;  // a chunk of more topics counts as one of every topic

}  // namespace

void Pipeline::Mark(Chunk* chunk) const {
  chunk->marks.clear();
  chunk->marked = true;
  for (const Event& event : chunk->data.events) {
    const uint64_t mark = marker_(event);
    auto found = chunk->marks.rbegin();
    while (found != chunk->marks.rend() && found->first != mark) {
      ++found;
    }
    if (found != chunk->marks.rend()) {
      found->second = event.created_at;
    } else if (chunk->marks.size() < kMaxMarks) {
      chunk->marks.emplace_back(mark, event.created_at);
    } else {
      chunk->marks.clear();
      chunk->marked = false;
      return;
    }
  }
}

void Pipeline::ForgetMarks() {
  for (Chunk& chunk : chunks_) {
    chunk.marks.clear();
    chunk.marked = false;
  }
}

int64_t Pipeline::LastMarked(const Chunk& chunk, uint64_t mark) {
  if (!chunk.marked) {
    return chunk.last_created_at;
  }
  for (const auto& [topic, last] : chunk.marks) {
    if (topic == mark) {
      return last;
    }
  }
  return kBeforeAllTime;
}

Pipeline::Share Pipeline::ShareOf(const std::function<bool(const Event&)>& matches, uint64_t mark) const {
  Share share;
  const auto stand = [&](const Chunk& chunk, int64_t created_at) {
    const Window& window = windows_[chunk.window - front_window_].window;
    share.start = Position{window.from, window.to, created_at};
  };
  for (const Chunk& chunk : chunks_) {
    if (chunk.bytes == 0) {
      const int64_t last = share.ordinals.empty() ? kBeforeAllTime : LastMarked(chunk, mark);
      if (last != kBeforeAllTime) {
        stand(chunk, last);
        share.leave = share.ordinals.size();
      }
      continue;
    }
    for (size_t i = 0; i < chunk.states.size(); ++i) {
      const Event& event = chunk.data.events[i];
      const bool done = chunk.states[i] == kDone;
      if ((done && share.ordinals.empty()) || !matches(event)) {
        continue;
      }
      if (done) {
        stand(chunk, event.created_at);
        share.leave = share.ordinals.size();
        continue;
      }
      if (share.ordinals.empty()) {
        stand(chunk, event.created_at - 1);  // created_at is unique
      }
      share.ordinals.push_back(chunk.first + i);
    }
  }
  if (share.ordinals.empty()) {
    share.start = ReadTo();
  }
  return share;
}

Position Pipeline::ReadTo() const {
  if (windows_.empty() || windows_.back().read) {
    return ReadPosition();
  }
  const OpenWindow& window = windows_.back();
  if (window.read_to == kBeforeAllTime) {
    return windows_.size() == 1 ? at_ : Position{window.window.from, std::nullopt, kBeforeAllTime};
  }
  return Position{window.window.from, window.window.to, window.read_to};
}

}  // namespace outbox::relay
