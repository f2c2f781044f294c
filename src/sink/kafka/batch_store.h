// The batches a sink holds, and the outcome of each of their records until it has been reported [-].
//
// Reports come partition by partition, so outcomes of one batch arrive interleaved. They are handed out as few ranges:
// at once as far as a batch is resolved from its start without a gap, the rest a moment later.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "sink/sink.h"

namespace outbox::sink::kafka {

enum class RecordState : uint8_t {
  kOpen = 0,
  kOpenUnsent,  // open, and certainly not written
  kDelivered,
  kAborted,
  kAbortedUnsent,
  kReported,
};

inline bool IsOpen(RecordState state) {
  return state == RecordState::kOpen || state == RecordState::kOpenUnsent;
}

// Where the records of a batch that were acknowledged together are; `first` and `last` are of those being reported.
struct Spot {
  const std::string* topic = nullptr;
  int32_t partition = -1;
  int64_t first = -1;
  int64_t last = -1;
  bool listed = false;
};

struct StoredBatch {
  enum class Use : uint8_t {
    kFree,
    kQuiet,    // every outcome has been handed out
    kTouched,  // there are others: it is in the store's list
  };
  Batch batch;                     // its bytes stay where they are until every record has an outcome
  std::vector<RecordState> state;  // one per record
  std::vector<int64_t> offset;     // of those delivered; -1: unknown
  std::vector<uint32_t> spot;      // of those delivered: number in spots
  std::vector<Spot> spots;
  uint32_t open = 0;          // records without an outcome
  uint32_t unreported = 0;    // outcomes not handed out
  uint32_t reported_to = 0;   // all before this one are handed out
  int64_t waiting_since = 0;  // when an outcome behind a gap was first seen; 0: none
  Use use = Use::kFree;
  bool open_records() const { return use != Use::kFree && open > 0; }
};

class BatchStore {
 public:
  // Returns the slot. The batch is not empty.
  uint32_t Add(Batch batch);
  StoredBatch& at(uint32_t slot) { return *batches_[slot]; }

  // Each of the following does nothing if the record has an outcome already. `spot` is from AddSpot of this slot. An
  // offset of -1: acknowledged, at an unknown offset.
  void Deliver(uint32_t slot, uint32_t index, uint32_t spot, int64_t offset);
  void Abort(uint32_t slot, uint32_t index) { Resolve(slot, index, RecordState::kAborted); }
  // When it is aborted, it was certainly not written: it has not gone to the library, or has come back from there.
  void Unsent(uint32_t slot, uint32_t index);
  void Fail(uint32_t slot, uint32_t index, Error error);
  // `topic` outlives the store.
  uint32_t AddSpot(uint32_t slot, const std::string* topic, int32_t partition);
  // Reports all records of a batch as aborted, without storing it.
  void Refuse(const Batch& batch);
  // Aborts every open record of every batch; first calls fn(stored) for each batch that has one.
  template <typename Fn>
  void AbortAll(Fn&& fn) {
    for (uint32_t slot = 0; slot < batches_.size(); ++slot) {
      StoredBatch& stored = *batches_[slot];
      if (!stored.open_records()) {
        continue;
      }
      fn(stored);
      for (uint32_t index = 0; index < stored.batch.count && stored.open > 0; ++index) {
        Abort(slot, index);
      }
    }
  }
  // Calls fn(slot, stored) for every batch with an open record.
  template <typename Fn>
  void ForEachOpen(Fn&& fn) {
    for (uint32_t slot = 0; slot < batches_.size(); ++slot) {
      if (batches_[slot]->open_records()) {
        fn(slot, *batches_[slot]);
      }
    }
  }

  // Appends what can be handed out now and frees batches that are done.
  void Flush(int64_t now, std::vector<Result>* results);
  // The places of all records that Flush has handed out as delivered since the last call.
  void TakePlaces(std::vector<Place>* places);
  // When Flush wants to be called again though nothing new came; -1: never.
  int64_t deadline() const;

  size_t open() const { return open_; }

 private:
  static constexpr int64_t kGapMicros = 200'000;  // these are not urgent: acknowledgement is by prefix

  void Resolve(uint32_t slot, uint32_t index, RecordState state);
  void Touch(uint32_t slot, StoredBatch* stored);
  void Report(StoredBatch* stored, uint32_t from, uint32_t to, std::vector<Result>* results);
  void NotePlaces(StoredBatch* stored, uint32_t from, uint32_t to);

  std::vector<std::unique_ptr<StoredBatch>> batches_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> touched_;  // slots with outcomes not handed out
  std::vector<Result> immediate_;  // failures and refused batches
  struct Range {
    int64_t first = -1;
    int64_t last = -1;
  };
  std::map<std::tuple<uint32_t, const std::string*, int32_t>, Range> places_;  // by flow, topic, partition
  std::vector<uint32_t> listed_;                                               // reused: spots of the range in hand
  size_t open_ = 0;
};

}  // namespace outbox::sink::kafka
