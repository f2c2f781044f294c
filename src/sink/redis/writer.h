// Writes records to streams, lists and channels, in order [-], and says what became of each.
//
// Streams: one script call per stream and batch, one call on its way per stream, many streams at once. The script stops
// at the first refused record (scripts.h). Where scripts are forbidden: XADD in a pipeline, never two records of a key
// at once. Lists: one RPUSH of many values, which is all or nothing. Channels: a script, or PUBLISH as XADD above.
//
// A stream entry has the fields `key` and `payload` (each absent where the record has none), then the record's own. A
// list or channel gets the payload alone; a tombstone is the empty string there.
//
// Used by one thread. The pipeline is the owner's and lives longer.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sink/flow_gate.h"
#include "sink/places.h"
#include "sink/protocol.h"
#include "sink/redis/pipeline.h"
#include "sink/redis/targets.h"
#include "sink/sink.h"

namespace outbox::sink {

class Writer {
 public:
  // `maxlen`: what streams are trimmed to, "": never.
  Writer(Pipeline* pipeline, std::string maxlen) : pipeline_(pipeline), maxlen_(std::move(maxlen)) {}

  void Submit(const Batch& batch);
  // Part of the greeting: teaches the server the scripts. `lost` is called when the connection is of no use.
  void Teach(const std::function<void(Error)>& lost);
  // Sends what may be sent.
  void Dispatch();
  // The connection is lost: all that is on its way is aborted, and what waits.
  void AbortAll();
  void AbortWaiting();
  // Forgets everything; nothing is reported afterwards.
  void Clear();

  // Appends the outcomes since the last call.
  void TakeResults(std::vector<Result>* results);
  bool has_results() const { return !results_.empty(); }
  void TakePlaces(std::vector<Place>* places) { places_.Take(places); }
  // Whether there was ever a record for a stream.
  bool writes_streams() const { return streams_; }
  // Whether anything was delivered since the last call.
  bool TakeProgress() { return std::exchange(delivered_, 0) != 0; }
  // Why another server may answer the same name by now: connect again. Not ok() once after such a reply.
  Error TakeReconnect() { return std::exchange(reconnect_, {}); }

 private:
  enum class CallKind { kScript, kPush, kSingle };
  struct Call {
    Target* target = nullptr;
    CallKind kind = CallKind::kSingle;
    std::vector<Entry> entries;
    size_t bytes = 0;
    int loads = 0;  // times the script had to be loaded again
  };
  using CallPtr = std::unique_ptr<Call>;

  void SendBatch(Target* target);
  void SendSingles(Target* target);
  void SendCall(CallPtr call);
  std::string Encode(const Call& call) const;
  void LoadAgain(CallPtr call);

  void HandleCall(const redisReply& reply);
  void HandleScript(CallPtr call, const redisReply& reply);
  void HandleScriptError(CallPtr call, Error error);
  void Delivered(const Call& call, size_t done, std::string_view first, std::string_view last);
  void Aborted(const Entry& entry);
  // The first `done` have been delivered, the next one failed with `error`; the rest is aborted or put back.
  void Stopped(CallPtr call, size_t done, Error error);
  void AbortBarred(uint32_t flow);

  Pipeline* const pipeline_;
  const std::string maxlen_;  // "": none
  Targets targets_;
  FlowGate gate_;
  std::deque<CallPtr> out_;  // not answered, in order
  size_t bytes_out_ = 0;     // of these
  std::vector<Result> results_;
  Places places_;
  std::map<std::pair<RecordForm, std::string>, unsigned> puzzles_;  // unknown replies in a row
  bool scripts_ = true;                                             // false: the server refuses them
  bool streams_ = false;                                            // there was a record for one
  std::string stream_sha_;
  std::string publish_sha_;
  uint64_t delivered_ = 0;  // records, since TakeProgress()
  Error reconnect_;
};

}  // namespace outbox::sink
