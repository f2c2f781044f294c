// What became of records [-]: the outcomes that are told to the owner, their places, and what a refusal bars.
//
// Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sink/flow_gate.h"
#include "sink/places.h"
#include "sink/redis/targets.h"
#include "sink/sink.h"

namespace outbox::sink {

class Outcomes {
 public:
  // False: a record of this epoch of the flow failed or was aborted: abort this one, too.
  bool Admits(const Entry& entry) const { return gate_.Admits(entry.flow, entry.epoch); }
  // Whether any record of the batch may go; if not, the batch is aborted.
  bool AdmitsBatch(const Batch& batch);
  // Fails record `index` of the batch by itself, and aborts what is behind it; what is before it may go.
  void FailUnsent(const Batch& batch, uint32_t index, Error error);

  // `first` and `last`: ids of stream entries, "" where there are none.
  void Delivered(const Target& target, std::span<const Entry> entries, std::string_view first, std::string_view last);
  // `unsent`: it was certainly not written.
  void Aborted(const Entry& entry, bool unsent);
  // An unknown error that comes again and again is the target's, not the server's.
  void Failed(const Target& target, const Entry& entry, Error error);

  // Appends the outcomes since the last call.
  void TakeResults(std::vector<Result>* results);
  bool empty() const { return results_.empty(); }
  // The stream with the latest id of those that were written to since the last call; id.time is 0: none was.
  struct Newest {
    StreamId id;
    std::string stream;
  };
  Newest TakeNewest() { return std::exchange(newest_, {}); }
  // The stream that was written to last; "": none was.
  const std::string& stream() const { return stream_; }
  void TakePlaces(std::vector<Place>* places) { places_.Take(places); }
  // Whether anything was delivered since the last call.
  bool TakeProgress() { return std::exchange(delivered_, 0) != 0; }
  void Clear();

 private:
  FlowGate gate_;
  std::vector<Result> results_;
  Places places_;
  Newest newest_;
  std::string stream_;
  std::map<std::pair<RecordForm, std::string>, unsigned> puzzles_;  // unknown replies in a row
  uint64_t delivered_ = 0;                                          // records, since TakeProgress()
};

}  // namespace outbox::sink
