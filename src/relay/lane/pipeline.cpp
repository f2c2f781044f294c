#include "relay/lane/pipeline.h"

#include <algorithm>
#include <utility>

namespace outbox::relay {

// --- reading -----------------------------------------------------------------------------------------------------

Position Pipeline::ReadPosition() const {
  if (windows_.empty()) {
    return at_;
  }
  return Position{windows_.back().window.to, std::nullopt, kBeforeAllTime};
}

void Pipeline::AddWindow(Window window, uint64_t barrier) {
  OpenWindow opened;
  opened.window = std::move(window);
  opened.barrier = barrier;
  windows_.push_back(std::move(opened));
}

size_t Pipeline::AddChunk(EventChunk chunk, bool end) {
  size_t bytes = 0;
  if (!chunk.events.empty()) {
    Chunk added;
    bytes = chunk.arena.used() + chunk.events.size() * (sizeof(Event) + 1);
    added.bytes = bytes;
    added.first = next_;
    added.window = front_window_ + windows_.size() - 1;
    added.last_created_at = chunk.events.back().created_at;
    added.states.assign(chunk.events.size(), kReady);
    for (const Event& event : chunk.events) {
      if (event.deliver_at != 0) {
        delayed_.Add(event.deliver_at);
      }
    }
    next_ += chunk.events.size();
    added.data = std::move(chunk);
    windows_.back().read_to = added.last_created_at;
    chunks_.push_back(std::move(added));
    bytes_ += bytes;
  }
  windows_.back().read = end;
  return bytes;
}

void Pipeline::AddBarrier(uint64_t barrier) {
  if (windows_.empty()) {
    ReachBarrier(barrier);
  } else {
    windows_.back().barrier = std::max(windows_.back().barrier, barrier);
  }
}

// --- sending -----------------------------------------------------------------------------------------------------

Pipeline::Chunk* Pipeline::ChunkOf(uint64_t ordinal) {
  return const_cast<Chunk*>(std::as_const(*this).ChunkOf(ordinal));
}

const Pipeline::Chunk* Pipeline::ChunkOf(uint64_t ordinal) const {
  if (chunks_.empty() || ordinal < chunks_.front().first || ordinal >= next_) {
    return nullptr;
  }
  if (ordinal < chunks_.front().first + chunks_.front().states.size()) {
    return &chunks_.front();  // most results are about the oldest
  }
  auto after = std::upper_bound(chunks_.begin(), chunks_.end(), ordinal,
                                [](uint64_t value, const Chunk& chunk) { return value < chunk.first; });
  return &*std::prev(after);
}

EventSpan Pipeline::NextSpan(uint32_t limit) {
  while (cursor_ < next_) {
    cursor_ = std::max(cursor_, prefix_);
    Chunk* chunk = ChunkOf(cursor_);
    if (chunk == nullptr) {
      break;
    }
    const uint32_t size = static_cast<uint32_t>(chunk->states.size());
    uint32_t at = static_cast<uint32_t>(cursor_ - chunk->first);
    if (chunk->done == size) {
      cursor_ = chunk->first + size;
      continue;
    }
    while (at < size && chunk->states[at] != kReady) {
      ++at;
    }
    cursor_ = chunk->first + at;
    if (at == size) {
      continue;
    }
    uint32_t end = at;
    while (end < size && end - at < limit && chunk->states[end] == kReady) {
      ++end;
    }
    EventSpan span;
    span.first = cursor_;
    span.events = &chunk->data.events[at];
    span.count = end - at;
    span.durable_lsn = windows_[chunk->window - front_window_].window.durable_lsn;
    return span;
  }
  return {};
}

void Pipeline::MarkSent(const EventSpan& span, uint32_t count, uint64_t first_seq, int64_t sent_at) {
  Chunk* chunk = ChunkOf(span.first);
  const size_t at = span.first - chunk->first;
  std::fill_n(chunk->states.begin() + static_cast<std::ptrdiff_t>(at), count, kSent);
  submissions_.push_back({first_seq, span.first, count, count, sent_at});
  outstanding_ += count;
  cursor_ = span.first + count;
}

uint32_t Pipeline::SetSent(uint64_t first, uint32_t count, State state) {
  uint32_t changed = 0;
  while (count > 0) {
    Chunk* chunk = ChunkOf(first);
    if (chunk == nullptr) {
      break;
    }
    const size_t at = first - chunk->first;
    const uint32_t here = static_cast<uint32_t>(std::min<size_t>(count, chunk->states.size() - at));
    uint32_t changed_here = 0;
    for (size_t i = at; i < at + here; ++i) {
      if (chunk->states[i] == kSent) {
        chunk->states[i] = state;
        ++changed_here;
        if (state == kDone) {
          ForgetDue(*chunk, i);
        }
      }
    }
    if (state == kDone) {
      CountDone(chunk, changed_here);
    }
    changed += changed_here;
    first += here;
    count -= here;
  }
  return changed;
}

void Pipeline::Measure(uint64_t first, uint32_t count, int64_t sent_at, Meter* meter) const {
  while (count > 0) {
    const Chunk* chunk = ChunkOf(first);
    if (chunk == nullptr) {
      return;
    }
    const size_t at = first - chunk->first;
    const auto here = static_cast<uint32_t>(std::min<size_t>(count, chunk->states.size() - at));
    for (size_t i = at; i < at + here;) {
      size_t end = i;
      while (end < at + here && chunk->states[end] == kSent) {
        ++end;
      }
      if (end > i) {
        meter->Delivered(&chunk->data.events[i], static_cast<uint32_t>(end - i), sent_at);
      }
      i = end + 1;
    }
    first += here;
    count -= here;
  }
}

void Pipeline::CountDone(Chunk* chunk, uint32_t count) {
  chunk->done += count;
  done_ahead_ += count;
  if (chunk->done == chunk->states.size() && chunk->bytes > 0) {
    if (marker_ != nullptr && chunk != &chunks_.front()) {
      Mark(chunk);
    }
    chunk->data = EventChunk{};
    bytes_ -= chunk->bytes;
    freed_ += chunk->bytes;
    chunk->bytes = 0;
  }
}

uint32_t Pipeline::Resolve(uint64_t first_seq, uint32_t count, bool delivered, std::vector<OrdinalRange>* undone,
                           Meter* meter) {
  uint32_t total = 0;
  uint64_t end = first_seq + count;
  auto it = submissions_.begin();
  if (it != submissions_.end() && it->first_seq + it->count <= first_seq) {
    it = std::upper_bound(
        submissions_.begin(), submissions_.end(), first_seq,
        [](uint64_t value, const Submission& submission) { return value < submission.first_seq + submission.count; });
  }
  for (; it != submissions_.end() && it->first_seq < end; ++it) {
    const uint64_t from = std::max(first_seq, it->first_seq);
    const uint64_t to = std::min(end, it->first_seq + it->count);
    if (from >= to) {
      continue;
    }
    const uint64_t first = it->first + (from - it->first_seq);
    const uint32_t meant = static_cast<uint32_t>(to - from);
    if (delivered && meter != nullptr) {
      Measure(first, meant, it->sent_at, meter);
    }
    const uint32_t changed = SetSent(first, meant, delivered ? kDone : kReady);
    it->left -= changed;
    outstanding_ -= changed;
    total += changed;
    newest_ = delivered ? std::max(newest_, first + meant) : newest_;
    if (!delivered && changed > 0) {
      undone->push_back({first, first + meant - 1});
    }
  }
  DropResolved();
  return total;
}

void Pipeline::DropResolved() {
  if (outstanding_ == 0) {
    submissions_.clear();
  }
  while (!submissions_.empty() && submissions_.front().left == 0) {
    submissions_.pop_front();
  }
}

uint64_t Pipeline::ForgetSent() {
  uint64_t first = prefix_;
  bool found = false;
  for (const Submission& submission : submissions_) {
    if (SetSent(submission.first, submission.count, kReady) > 0 && !found) {
      first = submission.first;
      found = true;
    }
  }
  submissions_.clear();
  outstanding_ = 0;
  return first;
}

void Pipeline::MarkDone(uint64_t ordinal) {
  Chunk* chunk = ChunkOf(ordinal);
  if (chunk != nullptr && chunk->states[ordinal - chunk->first] == kReady) {
    chunk->states[ordinal - chunk->first] = kDone;
    ForgetDue(*chunk, ordinal - chunk->first);
    CountDone(chunk, 1);
  }
}

const Event* Pipeline::Find(uint64_t ordinal) const {
  const Chunk* chunk = ChunkOf(ordinal);
  if (chunk == nullptr || chunk->states[ordinal - chunk->first] == kDone) {
    return nullptr;
  }
  return &chunk->data.events[ordinal - chunk->first];
}

DueEvents Pipeline::WaitingAt(int64_t wall) const {
  DueEvents due{unresolved() - delayed_.all(), 0};
  if (due.count > 0) {
    first_undelayed_ = std::max(first_undelayed_, prefix_);
    const Event* first = Find(first_undelayed_);
    while (first_undelayed_ < next_ && (first == nullptr || first->deliver_at != 0)) {
      first = Find(++first_undelayed_);
    }
    due.since = first == nullptr ? 0 : first->created_at;
  }
  if (!delayed_.empty()) {
    due.Add(delayed_.At(wall));
  }
  return due;
}

// --- acknowledging -----------------------------------------------------------------------------------------------

bool Pipeline::Advance() {
  bool moved = false;
  while (!windows_.empty()) {
    OpenWindow& window = windows_.front();
    while (!chunks_.empty() && chunks_.front().window == front_window_) {
      Chunk& chunk = chunks_.front();
      const uint64_t size = chunk.states.size();
      uint64_t at = prefix_ - chunk.first;
      const uint64_t start = at;
      if (chunk.done == size) {
        at = size;
      }
      while (at < size && chunk.states[at] == kDone) {
        ++at;
      }
      if (at > start) {
        done_ahead_ -= at - start;
        prefix_ = chunk.first + at;
        window.done_to = at == size ? chunk.last_created_at : chunk.data.events[at - 1].created_at;
        last_done_ = window.done_to;
        moved = true;
      }
      if (at < size) {
        return moved;
      }
      chunks_.pop_front();
    }
    if (!window.read) {
      return moved;
    }
    at_ = Position{std::move(window.window.to), std::nullopt, kBeforeAllTime};
    ReachBarrier(window.barrier);
    windows_.pop_front();
    ++front_window_;
    moved = true;
  }
  return moved;
}

Position Pipeline::position() const {
  if (windows_.empty() || windows_.front().done_to == kBeforeAllTime) {
    return at_;
  }
  const OpenWindow& window = windows_.front();
  return Position{window.window.from, window.window.to, window.done_to};
}

size_t Pipeline::TakeFreed() {
  return std::exchange(freed_, 0);
}

}  // namespace outbox::relay
