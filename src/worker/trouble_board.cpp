#include "worker/trouble_board.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "pg/worker_slot.h"

namespace outbox::worker {

namespace {

using pg::Shared;
using pg::TroubleSlot;

template <typename Fn>
void ForEachOf(Oid database, uint64 trouble, Fn&& fn) {
  for (int i = 0; i < Shared()->max_troubles; i++) {
    TroubleSlot* slot = &pg::Troubles()[i];
    if (slot->database == database && slot->trouble == trouble) {
      fn(slot);
    }
  }
}

// For some worker; one that died in it has it no more.
bool Lasts(Oid database, uint64 trouble) {
  bool lasts = false;
  ForEachOf(database, trouble,
            [&](const TroubleSlot* slot) { lasts = lasts || (!slot->over && pg::IsAlive(slot->owner)); });
  return lasts;
}

// What begins after it was over for all is another trouble.
void EndUnlessLasts(Oid database, uint64 trouble) {
  if (!Lasts(database, trouble)) {
    ForEachOf(database, trouble, [](TroubleSlot* slot) { slot->ended = true; });
  }
}

using Troubles = std::vector<std::pair<Oid, uint64>>;

// A free one, else one of a trouble that is over. While as many last as there are slots, each further one asks in vain:
// what lasts is gathered once for all. `lasting`: empty, with room for them.
TroubleSlot* Take(Troubles* lasting) {
  uint64 owner = 0;
  bool alive = false;
  for (int i = 0; i < Shared()->max_troubles; i++) {
    TroubleSlot* slot = &pg::Troubles()[i];
    if (slot->database == InvalidOid) {
      return slot;
    }
    if (slot->owner != owner) {  // a worker's often follow each other
      owner = slot->owner;
      alive = pg::IsAlive(owner);
    }
    if (!slot->over && alive) {
      lasting->emplace_back(slot->database, slot->trouble);
    }
  }
  std::sort(lasting->begin(), lasting->end());
  for (int i = 0; i < Shared()->max_troubles; i++) {
    TroubleSlot* slot = &pg::Troubles()[i];
    if (slot->ended ||
        !std::binary_search(lasting->begin(), lasting->end(), std::make_pair(slot->database, slot->trouble))) {
      return slot;
    }
  }
  return nullptr;
}

}  // namespace

uint64 TroubleBoard::Name(int64_t route_id, const std::string& topic) {
  return std::hash<std::string>()(std::to_string(route_id) + "/" + topic);
}

bool TroubleBoard::MaySay(uint64 trouble, const Error& error, int64_t now, int64_t again, bool once) const {
  const auto number = static_cast<size_t>(error.error_class);
  Troubles lasting;
  lasting.reserve(static_cast<size_t>(Shared()->max_troubles));  // nothing is allocated under the lock
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  EndUnlessLasts(database_, trouble);
  bool said = false;
  TroubleSlot* mine = nullptr;
  ForEachOf(database_, trouble, [&](TroubleSlot* slot) {
    mine = slot->owner == incarnation_ ? slot : mine;
    const int64 at = slot->said_at[number];
    const bool same = error.code == slot->code;
    if (at != 0 && (slot->ended ? once && same : true)) {
      said = said || same || now - at < again;
    }
  });
  mine = mine == nullptr ? Take(&lasting) : mine;
  if (mine != nullptr) {
    if (mine->owner != incarnation_ || mine->trouble != trouble || mine->database != database_ || mine->ended) {
      *mine = {};
      mine->database = database_;
      mine->owner = incarnation_;
      mine->trouble = trouble;
    }
    mine->over = false;  // to another worker it lasted meanwhile
    if (!said) {
      mine->said_at[number] = now;
      strlcpy(mine->code, error.code.c_str(), sizeof(mine->code));
    }
  }
  LWLockRelease(Shared()->lock);
  return !said;
}

bool TroubleBoard::End(uint64 trouble) const {
  bool mine = false;
  bool said = false;
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  ForEachOf(database_, trouble, [&](TroubleSlot* slot) {
    if (slot->owner == incarnation_ && !slot->ended) {
      mine = slot->over = true;
    }
    said = said || (!slot->ended &&
                    std::any_of(std::begin(slot->said_at), std::end(slot->said_at), [](int64 at) { return at != 0; }));
  });
  const bool last = !Lasts(database_, trouble);
  EndUnlessLasts(database_, trouble);
  LWLockRelease(Shared()->lock);
  return !mine || (last && said);  // without a slot it has spoken for itself
}

}  // namespace outbox::worker
