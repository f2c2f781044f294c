// What a relay worker and a sink process say to each other over their socket pair [-].
//
// Frames: u32 size of the body, u8 type, three zero bytes, body; host byte order (both ends come from one build on one
// machine; Configure carries the protocol version, so that a half-done upgrade is noticed).
//
//   worker -> sink   Configure (first, once), Submit, Ask, Admit, IdentifyAgain, Close
//   sink -> worker   Ready (answers Configure), Results, Health, Identity, Ends (answers Ask),
//                    Alive (when nothing else was said for a while)
//   a session -> sink   Checkup (first and only: instead of Configure; its bodies are in checkup.h)
//   sink -> a session   CheckupRows
//
// Signs of life are sent unasked: a question would have to wait behind up to 64 MB of records, and a sink that has too
// many reads nothing at all.
//
// Nothing here blocks: reader and writer take a non-blocking socket and move 256 KB at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sink/record.h"
#include "sink/sink.h"

namespace outbox::sink {

inline constexpr uint32_t kProtocolVersion = 9;
inline constexpr size_t kFrameHeader = 8;
// A larger frame means a broken peer. The sink's frames are small: a process that was taken over must not cost its
// worker much.
inline constexpr size_t kMaxFrame = size_t{512} << 20;
static_assert(kMaxFrame - kMaxRecord >= size_t{64} << 20);  // the records before it in a batch
inline constexpr size_t kMaxAnswer = size_t{4} << 20;
inline constexpr size_t kUsualAnswer = size_t{1} << 20;  // what a sink cuts its own to, but for one entry
inline constexpr size_t kIoSize = size_t{256} << 10;

// All that a sink needs to know about its destination. Options are canonical names, checked by options.h, secrets
// included: never log or print them.
struct SinkConfig {
  std::string name;  // the destination (foreign server), for client.id and messages
  Options options;
  uint64_t max_message_bytes = 0;   // largest record the worker may send, key, body and fields together; 0: unknown
  uint64_t max_inflight_bytes = 0;  // the worker's budget for this destination; 0: unknown
  uint32_t alive_ms = 2000;         // the process says something this often; see process_sink.h
  std::string data_directory = {};  // the server's, which is closed to the process (confine.h); "": not known
  bool checks_server = false;       // the worker has to admit each new run of the server before anything is written
};

enum class FrameType : uint8_t {
  kConfigure = 1,
  kSubmit = 2,
  kClose = 3,
  kReady = 4,
  kResults = 5,
  kHealth = 6,
  kAlive = 7,
  kIdentity = 8,
  kAsk = 9,
  kEnds = 10,
  kAdmit = 11,
  kIdentifyAgain = 12,
  kCheckup = 13,
  kCheckupRows = 14,
};

struct Frame {
  FrameType type;
  std::string_view body;  // points into the reader; good until its next call
};

enum class IoState { kOk, kEnded, kBroken };  // kEnded: the peer closed; kBroken: error or nonsense (errno may tell)

// Collects frames from a socket. Does not own the descriptor.
class FrameReader {
 public:
  explicit FrameReader(size_t max_frame = kMaxFrame) : max_frame_(max_frame) {}
  // One read, of at most kIoSize or so. kOk also when it has nothing at the moment (`*got` false then).
  IoState Fill(int fd, bool* got);
  // The last read took all there was: whoever waits for the descriptor is told of more.
  bool drained() const { return drained_; }
  // The next whole frame. False: need more (state() == kOk) or nonsense (kBroken).
  bool Next(Frame* frame);
  // What Next() has handed out lies elsewhere by now: where it took many megabytes they are given back.
  void Done();
  IoState state() const { return state_; }
  size_t buffered() const { return end_ - begin_; }

 private:
  void MakeRoom();

  size_t max_frame_;
  std::unique_ptr<char[]> buffer_;
  size_t capacity_ = 0;
  size_t begin_ = 0;  // frames before this have been handed out
  size_t end_ = 0;    // bytes after this have not been read
  bool drained_ = true;
  IoState state_ = IoState::kOk;
};

// Queues frames and writes them when the socket takes them. Does not own the descriptor.
class FrameWriter {
 public:
  void Append(FrameType type, std::string_view head, std::string body = {});
  void Clear();
  void Take(FrameWriter other);  // what `other` has, behind what is here; `other` must not have been flushed
  // Writes until the socket is full or the queue empty.
  IoState Flush(int fd);
  bool empty() const { return pending_ == 0; }
  size_t pending() const { return pending_; }  // bytes

 private:
  std::deque<std::string> queue_;  // small frames are joined; a big body is moved in, not copied
  size_t offset_ = 0;              // bytes of the first chunk that are written
  size_t pending_ = 0;
};

// Bodies. Decode... is false on nonsense.
std::string EncodeConfigure(const SinkConfig& config);
bool DecodeConfigure(std::string_view body, SinkConfig* config);  // also false when the version differs
uint32_t ConfiguredVersion(std::string_view body);                // of any version; 0: it has none
std::string EncodeSubmitHead(const Batch& batch);                 // the packed records follow it
bool DecodeSubmit(std::string_view body, Batch* batch);           // also false when it says more records than fit
// Places travel with the outcomes they belong to: in front of them, in the same frame.
std::string EncodeResults(const std::vector<Place>& places, const std::vector<Result>& results);
bool DecodeResults(std::string_view body, std::vector<Place>* places, std::vector<Result>* results);  // appends
// EncodeResults as frames of a bounded size, each passed to `send`; places before the outcomes they belong to.
void EncodeAnswers(const std::vector<Place>& places, const std::vector<Result>& results,
                   const std::function<void(std::string)>& send);
// DecodeResults one by one: no memory is reserved for the counts that the peer claims.
class ResultsReader {
 public:
  explicit ResultsReader(std::string_view body) : body_(body) {}
  // All places, then all results. False: no more, or nonsense.
  bool Next(Place* place);
  bool Next(Result* result);
  // After all of them: it was no nonsense.
  bool whole() const { return good_ && begun_ == 2 && left_ == 0 && body_.empty(); }

 private:
  bool Take(int part);  // one more of places (1) or results (2)

  std::string_view body_;
  int begun_ = 0;
  uint32_t left_ = 0;
  bool good_ = true;
};
std::string EncodeHealth(const Health& health);
bool DecodeHealth(std::string_view body, Health* health);  // leaves the counters alone
std::string EncodeIdentity(const std::string& server_run);
bool DecodeIdentity(std::string_view body, std::string* server_run);
std::string EncodeAsk(const std::vector<AskedStream>& streams);
bool DecodeAsk(std::string_view body, std::vector<AskedStream>* streams);
std::string EncodeEnds(const std::vector<StreamEnd>& ends);
bool DecodeEnds(std::string_view body, std::vector<StreamEnd>* ends, size_t most = SIZE_MAX);  // false: more than that
std::string EncodeAdmit(const std::string& server_run, bool drop);
bool DecodeAdmit(std::string_view body, std::string* server_run, bool* drop);

// Appends a result, or grows the last one when both say delivered (or both aborted) of neighbouring records.
void AppendResult(Result result, std::vector<Result>* results);

}  // namespace outbox::sink
