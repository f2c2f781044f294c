// What waits to be sent to Redis, by target [-]: a stream, list or channel. Order is per target, so only one call that
// may be refused half-way is on its way to a target at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sink/record.h"

namespace outbox::sink {

// One record, ready to be put into a command.
struct Entry {
  uint32_t flow = 0;
  uint32_t epoch = 0;
  uint64_t seq = 0;
  uint64_t key_hash = 0;   // of flow and key; 0: no key
  uint32_t arguments = 0;  // how many are in `encoded`
  std::string encoded;     // stream: names and values of the fields; list, channel: the body. Redis' own format
};

struct Target {
  RecordForm form = RecordForm::kStream;
  std::string name;
  std::deque<Entry> queue;            // not sent yet, in order
  uint32_t calls = 0;                 // on their way
  bool exclusive = false;             // one of them must come back before anything else is sent
  std::unordered_set<uint64_t> busy;  // keys on their way; only where records go one by one
  bool listed = false;                // in Targets' list of those that may send
};

class Targets {
 public:
  // Returns false if the record has no fields at all.
  bool Add(uint32_t flow, uint32_t epoch, uint64_t seq, const Record& record);
  // Puts entries back that were not done, before all others of the target.
  void PutBack(Target* target, std::vector<Entry> entries);

  // A target that may have something to send; nullptr: none. It is off the list until Wake().
  Target* TakeReady();
  // Call when something of the target came back, or when it was taken and left with entries that may be sent: lists it
  // again when it has entries. Forgets it when it has nothing left (it is gone then).
  void Wake(Target* target);

  // Takes out every entry for which `wanted` says so, in order within a target.
  template <typename Wanted>
  void Remove(Wanted wanted, std::vector<Entry>* removed);
  void Clear();
  bool empty() const { return targets_.empty(); }

 private:
  Target* Find(RecordForm form, std::string_view name);

  std::unordered_map<std::string, std::unique_ptr<Target>> targets_;  // by form and name
  std::deque<Target*> ready_;
  std::string lookup_;
};

template <typename Wanted>
void Targets::Remove(Wanted wanted, std::vector<Entry>* removed) {
  for (auto& [name, target] : targets_) {
    std::deque<Entry> kept;
    for (Entry& entry : target->queue) {
      if (wanted(entry)) {
        removed->push_back(std::move(entry));
      } else {
        kept.push_back(std::move(entry));
      }
    }
    target->queue.swap(kept);
  }
}

}  // namespace outbox::sink
