// The sink interface [-]: what speaks to one destination. Implemented by the Kafka and Redis sinks (inside their
// executables), by ProcessSink (which carries the calls to such an executable), by the log sink and the null sink.
//
// Single-threaded: all calls come from the owner's thread, and none blocks. The owner waits on wait() and calls Poll().
//
// Order. Records carry the flow they belong to (a lane) and the flow's epoch. Within one flow and topic, records with
// the same key are delivered in submission order. When a record of a flow fails, the sink lets nothing of that flow
// pass that would have to come after it: it reports every unresolved record of the flow, and every record of that
// (flow, epoch) submitted later, as kDelivered or kAborted, and takes new ones only under a higher epoch. It may abort
// other flows as well (Kafka does: the producer is recreated); then it says so the same way, record by record.
// The owner waits until all outstanding records of a flow are resolved, raises the epoch, and submits the aborted ones
// again, in order. Every record submitted gets exactly one outcome, unless Close() comes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace outbox::sink {

using Options = std::map<std::string, std::string>;

struct Batch {
  uint32_t flow = 0;
  uint32_t epoch = 0;
  uint64_t first_seq = 0;  // records are numbered first_seq, first_seq + 1, ...; per sink, rising, never reused
  uint32_t count = 0;
  std::string records;  // packed, see record.h
};

enum class Outcome : uint8_t {
  kDelivered = 1,
  kFailed = 2,  // `error` says why; its class decides
  kAborted =
      3,  // not this record's fault; possibly written (a duplicate may follow), submit again in order. See unsent
};

// One outcome for `count` records in a row.
struct Result {
  uint32_t flow = 0;
  uint64_t first_seq = 0;
  uint32_t count = 1;
  Outcome outcome = Outcome::kDelivered;
  Error error;          // kFailed only
  bool unsent = false;  // kAborted only: these were certainly not written. Nothing but figures depends on it
};

struct Health {
  bool up = true;               // false: the destination (or the sink process) cannot be used now
  Error error;                  // why it is down; class kDestination or kConfig
  uint64_t changes = 0;         // +1 whenever another member changed
  uint64_t deaths = 0;          // times the sink process ended unasked; 0 for sinks that have none
  Error warning = {};           // usable, but a person should look ("LOST_WRITES"); stays while it is so
  uint64_t unready_deaths = 0;  // of the deaths, those before the process had looked at any record
  uint64_t kills = 0;           // of the others, those by a SIGKILL from outside: an operator, the OOM killer
  uint64_t unready_kills = 0;   // of the unready ones, those
  bool sending = false;         // what was submitted is on its way still: no outcome for a while, but bytes move
  std::string cluster = {};     // the id of the cluster that it is connected to; "": not known yet, or it has none
};

// Where delivered records of a flow are at the destination.
struct Place {
  uint32_t flow = 0;
  std::string topic;       // topic, stream, list or channel
  int32_t partition = -1;  // -1: the destination has none
  std::string first;       // smallest and largest place there: decimal offset or stream id; "": it has none, or an
  std::string last;        // acknowledgement came without one. Ordered by PlaceBefore() in places.h. Both ends count
};

// The run of the server that the sink has connected to and not been admitted to yet: a restarted Redis, or another
// Redis in its place, which may have lost what the earlier one had acknowledged. Until Admit() nothing is written to
// it; what is submitted waits.
struct ServerIdentity {
  std::string server_run;  // one run of one server: "endpoint.run id.history", hashed or cut; "": none
  uint64_t number = 0;     // +1 with each change of `server_run`, also to the same
};

// A question to that server, about an entry that was acknowledged in a stream.
struct AskedStream {
  std::string stream;
  std::string acknowledged;  // its id
};

// The answer. Others may write to the stream, too, also since the server came back without what it had: so its end
// alone does not tell that an entry before it is there.
struct StreamEnd {
  std::string stream;
  std::string acknowledged;  // as asked
  std::string last;          // the last id it ever had; "": there is no such stream
  std::string kept;          // the newest id there that was certainly written before the server came back; "": none
  bool lacking = false;      // the entry is not there, and it is not known to have been trimmed or deleted
  bool lost = false;         // and the stream is no younger one of the same name: it ends earlier, or has older entries
};

struct WaitSpec {
  int fd = -1;  // -1: none
  bool read = false;
  bool write = false;
  int64_t deadline = -1;  // monotonic microseconds at which Poll() wants to be called in any case; -1: none
};

class Sink {
 public:
  virtual ~Sink() = default;  // like Close(), then frees; never blocks, never calls Postgres

  // Takes the batch. Never refuses: the owner keeps the budget.
  virtual void Submit(Batch batch) = 0;
  // Moves bytes and appends outcomes. Call when wait() is ready, after Submit, and at the deadline.
  virtual void Poll(std::vector<Result>* results) = 0;
  // What to wait for. More than one descriptor may be appended.
  virtual void AppendWaits(std::vector<WaitSpec>* waits) = 0;
  virtual const Health& health() const = 0;
  // Appends the places of all records that Poll() has reported kDelivered since the last call: one for each flow, topic
  // and partition. Records of other flows may lie between first and last. Nothing is appended for a sink without
  // places.
  virtual void TakePlaces(std::vector<Place>* places) { static_cast<void>(places); }

  // --- sinks that are made with SinkConfig::checks_server ---
  virtual const ServerIdentity* identity() const { return nullptr; }
  // It waits to be admitted to the run that identity() names.
  bool awaits_admission() const { return identity() != nullptr && !identity()->server_run.empty(); }
  // Asks the server that waits to be admitted about entries in streams; one question at a time.
  virtual void Ask(std::vector<AskedStream> streams) {  // NOLINT(performance-unnecessary-value-param): sinks keep it
    static_cast<void>(streams);
  }
  // Returns true once, when all that was asked about has been answered; what the server did not tell is left out.
  virtual bool TakeEnds(std::vector<StreamEnd>* ends) { return static_cast<void>(ends), false; }
  // Disconnects, and reports the server that answers some seconds later. A sink that was admitted does so as soon as
  // nothing is on its way, and reports at once which run answers then, if it is another one.
  virtual void IdentifyAgain() {}
  // Admits the sink to that run, if the server still is it, and to the same run on later connections. `drop`: what
  // waits is aborted first.
  virtual void Admit(const std::string& server_run, bool drop) {
    static_cast<void>(server_run), static_cast<void>(drop);
  }

  // Drops everything unresolved and lets go of the destination at once. Nothing is reported afterwards.
  virtual void Close() = 0;
};

}  // namespace outbox::sink
