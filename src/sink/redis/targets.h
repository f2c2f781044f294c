// What waits to be sent to Redis, by target [-]: a stream, list or channel. Order is per target.
//
// Used by one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sink/record.h"

namespace outbox::sink {

// One record that waits, or is on its way, as Redis will read it (commands.h). Those of a batch lie one behind the
// other.
struct Entry {
  uint32_t flow = 0;
  uint32_t epoch = 0;
  uint64_t seq = 0;
  std::shared_ptr<const std::string> batch;
  size_t offset = 0;
  size_t size = 0;
  uint64_t key_hash = 0;  // of key and flow; 0: no key
};

// What all commands to a target have in common: the command's name, the target's, and the like.
struct CommandHead {
  size_t arguments = 0;  // how many these are
  std::string bytes;     // in Redis' own format, without the array's count
};

struct Target {
  RecordForm form = RecordForm::kStream;
  std::string name;
  CommandHead head;
  std::deque<Entry> queue;            // not sent yet, in order
  uint32_t calls = 0;                 // on their way
  std::unordered_set<uint64_t> busy;  // keys on their way; only where records go one by one
  bool listed = false;                // in Targets' list of those that may send
};

class Targets {
 public:
  // `maxlen`: what streams are trimmed to, "": never.
  explicit Targets(std::string maxlen) : maxlen_(std::move(maxlen)) {}

  // Of that name; made if there is none. It holds until the next call of Wake() for it, Remove() or Clear().
  Target* Find(RecordForm form, std::string_view name);
  void Add(Target* target, Entry entry);
  // The first one of the target's queue, which is not empty.
  Entry Take(Target* target);
  // Puts entries back that were not done, before all others of the target.
  void PutBack(Target* target, std::vector<Entry> entries);
  // What is in all queues.
  size_t records() const { return records_; }
  size_t bytes() const { return bytes_; }

  // A target that may have something to send; nullptr: none. It is off the list until Wake().
  Target* TakeReady();
  // As it was before TakeReady().
  void PutReadyBack(Target* target);
  // Call when something of the target came back, or when it was taken and left with entries that may be sent: lists it
  // again when it has entries. Forgets it when it has nothing left (it is gone then).
  void Wake(Target* target);

  // Takes out every entry for which `wanted` says so, in order within a target.
  template <typename Wanted>
  void Remove(Wanted wanted, std::vector<Entry>* removed);
  void Clear();

 private:
  const std::string maxlen_;
  std::unordered_map<std::string, std::unique_ptr<Target>> targets_;  // by form and name
  std::deque<Target*> ready_;
  size_t records_ = 0;
  size_t bytes_ = 0;
  Target* found_ = nullptr;  // the one found last: neighbours often have the same
  std::string lookup_;
};

template <typename Wanted>
void Targets::Remove(Wanted wanted, std::vector<Entry>* removed) {
  for (auto& [name, target] : targets_) {
    std::deque<Entry> kept;
    for (Entry& entry : target->queue) {
      if (wanted(entry)) {
        --records_;
        bytes_ -= entry.size;
        removed->push_back(std::move(entry));
      } else {
        kept.push_back(std::move(entry));
      }
    }
    target->queue.swap(kept);
  }
}

}  // namespace outbox::sink
