#include "relay/lane/saver.h"

#include <algorithm>

#include "relay/lane/lane.h"

namespace outbox::relay {

namespace {

constexpr size_t kMostMoved = 64;        // of one pass
constexpr int64_t kMovedAgain = 20'000;  // microseconds until the next of them

}  // namespace

bool Saver::Save(TurnContext* turn) {
  next_time_ = kNever;
  if (asked_.empty() && moved_.empty()) {
    return false;
  }
  const bool flush = !asked_.empty();
  const auto settled = [](const Lane* lane) { return !lane->WantsSave(); };  // by a later step of this pass
  std::erase_if(asked_, settled);
  std::erase_if(moved_, settled);
  if (moved_.size() > kMostMoved) {
    moved_.resize(kMostMoved);  // the others ask again
    next_time_ = turn->now + kMovedAgain;
  }
  asked_.insert(asked_.end(), moved_.begin(), moved_.end());
  moved_.clear();
  // Those that have failed come last, so that none of the others is held up by them.
  std::stable_sort(asked_.begin(), asked_.end(),
                   [](const Lane* a, const Lane* b) { return a->most_together() > b->most_together(); });
  bool worked = false;
  for (size_t begin = 0; begin < asked_.size();) {
    const size_t most = asked_[begin]->most_together();
    size_t end = begin + 1;
    while (end < asked_.size() && end - begin < most && asked_[end]->most_together() == most) {
      ++end;
    }
    worked |= SaveSome(begin, end, turn);
    begin = end;
  }
  asked_.clear();
  if (flush) {
    turn->saved_at = turn->now;
  }
  return worked && flush;
}

bool Saver::SaveSome(size_t begin, size_t end, TurnContext* turn) {
  saves_.clear();
  for (size_t i = begin; i < end; ++i) {
    saves_.push_back(asked_[i]->BeginSave());
  }
  const Status status = saves_.front().log->SaveProgress(saves_);
  for (size_t i = begin; i < end; ++i) {
    asked_[i]->EndSave(status, saves_[i - begin], end - begin, *turn);
  }
  return status.ok();
}

}  // namespace outbox::relay
