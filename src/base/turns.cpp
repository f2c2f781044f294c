#include "base/turns.h"

#include <algorithm>

namespace outbox {

namespace {

struct Kind {
  int takers = 0;   // all of them
  int slots = 0;    // how many they may have
  int used = 0;     // how many they have, or are given now
  int leaving = 0;  // of these: will be free without another process's leaving
  int64_t busy_turn = 0;
};

using State = TurnTaker::State;
using Answer = TurnTaker::Answer;

bool LongerWaiting(const TurnTaker* a, const TurnTaker* b) {
  return a->since < b->since;
}

}  // namespace

void ShareOutSlots(int slots, int64_t now, std::vector<TurnTaker>* takers) {
  slots = std::max(slots, 1);
  Kind kinds[2];  // relay workers, keepers
  std::vector<TurnTaker*> waiting;
  std::vector<TurnTaker*> running;
  for (TurnTaker& taker : *takers) {
    taker.answer = Answer::kAsItIs;
    Kind& kind = kinds[taker.keeper];
    kind.takers++;
    kind.used += taker.running();
    kind.leaving += taker.state == State::kLeaving;
    if (taker.state == State::kDue) {
      waiting.push_back(&taker);
    } else if (taker.running() && taker.state != State::kLeaving) {
      running.push_back(&taker);
    }
  }
  kinds[0].slots = slots == 1 ? 1 : slots - 1;
  kinds[1].slots = std::max(1, slots - std::min(kinds[0].takers, kinds[0].slots));
  for (Kind& kind : kinds) {
    kind.busy_turn = std::clamp(kRound * kind.slots / std::max(kind.takers, 1), kShortestBusyTurn, kLongestBusyTurn);
  }
  std::stable_sort(waiting.begin(), waiting.end(), LongerWaiting);
  std::stable_sort(running.begin(), running.end(), LongerWaiting);
  for (TurnTaker* taker : waiting) {
    Kind& kind = kinds[taker->keeper];
    const bool kind_full = kind.used >= kind.slots;
    const bool all_full = kinds[0].used + kinds[1].used >= slots;
    if (!kind_full && !all_full) {
      taker->answer = Answer::kStart;
      kind.used++;
      continue;
    }
    // A place that a process is about to leave will do.
    Kind& other = kinds[!taker->keeper];
    Kind* left = kind.leaving > 0 ? &kind : !kind_full && other.leaving > 0 ? &other : nullptr;
    if (left != nullptr) {
      left->leaving--;
      continue;
    }
    auto may_go = [&](const TurnTaker* holder, bool quiet) {
      const Kind& its = kinds[holder->keeper];
      const bool of_use = holder->keeper == taker->keeper || !kind_full;
      return of_use && holder->answer != Answer::kStop &&
             now - holder->since >= (quiet ? kShortestTurn : its.busy_turn) &&
             (!quiet || holder->state == State::kQuiet);
    };
    for (bool quiet : {true, false}) {
      auto holder = std::find_if(running.begin(), running.end(),
                                 [&](const TurnTaker* candidate) { return may_go(candidate, quiet); });
      if (holder != running.end()) {
        (*holder)->answer = Answer::kStop;
        break;
      }
    }
  }
}

}  // namespace outbox
