// relay::LaneLog over Postgres: one lane's reading of the log and its progress [P behind, no Postgres type in
// sight]. For use in a relay worker only (it runs transactions of its own), on its one thread, with
// pg::PinSessionSettings() done. The destructor frees memory and closes its sort file; it never calls Postgres.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "log/progress/lane_claims.h"
#include "log/progress/run_period.h"
#include "relay/common/lane_log.h"

namespace outbox::log {

class LaneReader;
class SharedLane;
class SharedWindows;
class TickCursor;

class PgLaneLog final : public relay::LaneLog {
 public:
  // For a lane, or for one of its side lanes (id.side). `filter` must outlive this object, and picks the lane's events
  // out of those of `lanes` lanes. `incarnation`: the worker's, as outbox_internal.lane.owner holds it. `shared`: of
  // all lanes of the worker, outlives this object; nullptr: it reads alone.
  PgLaneLog(LaneId id, int lanes, uint64_t incarnation, const EventFilter* filter, SharedWindows* shared = nullptr);
  ~PgLaneLog() override;
  PgLaneLog(const PgLaneLog&) = delete;
  PgLaneLog& operator=(const PgLaneLog&) = delete;

  // Fails with CONFIG_CHANGED if the route has another number of lanes by now: the filter would be wrong.
  Status LoadPosition(Position* position) override;
  int64_t there_since() const override { return there_since_; }
  int64_t since() const { return since_; }  // outbox_internal.lane.since as of LoadPosition
  Status OpenWindow(const Position& position, relay::Window* window, bool* opened) override;
  bool stopped() const override { return stopped_; }
  // A row that has changed or gone between the first reading of a large window and its turn (day table dropped by
  // hand, rewritten by VACUUM FULL) is an error of class internal, code LOG_CHANGED; the next call reads the rest of
  // the window again, after the last event handed out.
  Status ReadChunk(size_t max_bytes, EventChunk* chunk, bool* end) override;
  bool rests() const override;
  bool saw_rows() const override;
  Found FoundAhead(int64_t wall) const override;
  Status CheckDurable(uint64_t lsn, bool* durable) override;
  void LimitTo(const Snapshot* limit) override;
  Status SaveProgress(std::span<relay::ProgressSave> saves) override;
  Status Rewind(const std::string& server_run, bool resend, relay::Loss* loss) override;
  void SetServerRun(const std::string& server_run) override { server_run_ = server_run; }

 private:
  struct Opening;
  bool MayOpen(const Position& position, Opening* opening);
  bool KnownByOthers(const Position& position, relay::Window* window, bool* opened);
  void ChooseEnd(const Position& position, Opening* opening);
  void BeginReading(const Position& position, const Opening& opening);

  LaneId id_;
  int lanes_;
  uint64_t incarnation_;
  bool converging_ = false;        // as of LoadPosition: a change of it is a new lane for the worker
  std::optional<Snapshot> limit_;  // as of LoadPosition
  int64_t since_ = 0;
  int64_t there_since_ = kBeforeAllTime;
  std::optional<Snapshot> repeats_to_;  // as of LoadPosition
  bool repeats_ = false;                // the window begins before that
  std::vector<size_t> settled_;         // events of the chunk that are not the lane's, see ListSettled
  std::optional<Snapshot> side_limit_;  // for a side lane on its way back
  bool stopped_ = false;
  bool ticks_locked_ = false;  // the last window could not be opened because of that
  std::string server_run_;     // of the destination's server; "": it does not tell
  RunPeriod period_;
  SharedWindows* const shared_;
  std::unique_ptr<SharedLane> place_;  // among the lanes that share
  std::unique_ptr<LaneReader> reader_;
  std::unique_ptr<TickCursor> ticks_;
};

}  // namespace outbox::log
