// Statements over outbox_internal.parked and outbox_internal.outcome [P]. Plain code, for use under a guard, in a
// transaction with SPI connected. Vectors that are filled belong to the caller; scratch vectors are passed in for that
// reason.
//
// What holds a key, and in which order its rows go, is defined in schema/44_keys.sql. Invariants kept here, and by the
// functions for operators:
//   - only rows in an unbroken sequence from the head of their key are `retrying`; a row that comes to the head is made
//     so by the transaction that removed the row before it, in a statement that begins after the removal;
//   - a transaction that puts a `blocked` row behind a head locks that head first (FOR SHARE), so that one of the two
//   sees the
//     other. A head that another transaction has locked is uncertain: the key is checked again later ("unsure").
// Nothing here waits for a row lock of an operator's transaction, except where it removes what it has itself claimed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/lane_id.h"
#include "format/record_format.h"
#include "parked/key_fronts.h"
#include "pg/prelude.h"
#include "relay/common/parked_log.h"

namespace outbox::parked {

// Rows promoted at once, over all keys of a call: what a claim takes. So a run, the `retrying` rows from the head of a
// key, is no longer.
inline constexpr int kLongestRun = relay::ClaimLimits::kMostEvents;
// Rows of a key that are read to see a run whole, with what came between its rows since.
inline constexpr int kWaitingRead = 300;
static_assert(kWaitingRead > kLongestRun);

// Which lane, for which worker.
struct ParkedOwner {
  LaneId lane;
  uint64_t incarnation = 0;
};

// Returns false if the lane is not the incarnation's. *block: the route's policy.
bool OwnsLane(const ParkedOwner& owner, bool* block);
// As OwnsLane, and keeps it so until the transaction ends: a session that moves the lane waits, or is waited for. Also
// returns false if the lane was put somewhere else since `since` (outbox_internal.lane.since) was read: the worker may
// own it again, but what was decided under the old position does not count.
bool LockLane(const ParkedOwner& owner, int64_t since);

// --- parking ---
// Inserts, in portions; false when the lane is not the incarnation's. An event that is there already stays as it is,
// but for its error; one that was blocked takes the new state where it has been refused since.
bool InsertParked(const ParkedOwner& owner, std::span<const relay::Parking> events);

// --- keys ---
// Each key is searched from its front; with kNoFronts from its beginning.

// Makes the first rows of those keys whose head is blocked, though nothing holds the key, retrying and due at `now`,
// which is pg::BelievedWall() like every time that due times are made of and compared with, or earlier.
// The only place where that is decided: lanes and the functions for operators both call it. Nothing is done with a key
// whose head another transaction has locked: its other rows would be due before it, and in others' way.
void PromoteHeads(int64_t route_id, bool block, const std::vector<uint64_t>& keys, int64_t now,
                  const KeyFronts& fronts);
// Appends those of `keys` whose head is blocked and is not promoted, because another transaction has it locked; not
// those that are paused.
void FindHeadless(const ParkedOwner& owner, bool block, const std::vector<uint64_t>& keys, const KeyFronts& fronts,
                  std::vector<uint64_t>* headless);
// Appends those of `keys` that something holds (a head that is being retried; under `block` a dead row) which no other
// transaction has locked; locks it.
void LockHolders(const ParkedOwner& owner, bool block, const std::vector<uint64_t>& keys, const KeyFronts& fronts,
                 std::vector<uint64_t>* locked);
// Appends those of `keys` that nothing holds, as far as can be seen from their fronts.
void FindFree(const ParkedOwner& owner, bool block, const std::vector<uint64_t>& keys, const KeyFronts& fronts,
              std::vector<uint64_t>* free);
// Appends the keys of the lane that are held, and to `headless` those whose head is blocked.
void ReadHeld(const ParkedOwner& owner, bool block, std::vector<uint64_t>* held, std::vector<uint64_t>* headless);

// Gives the rows of the lane that go by the route's template the topic and the key that `format` gives them; all such
// rows are read, but, with `only_if`, none unless the first rows of one of these keys have another topic. Nothing is
// done while the table has another template than `format`. Returns whether any row is changed. Waits for rows that an
// operator has locked: until they are named nothing may be sent. (alter_route() renames what it sees, in its own
// transaction. It cannot see what lanes park until they know of it.)
bool RenameParked(const ParkedOwner& owner, bool block, format::RecordFormat* format,
                  const std::vector<uint64_t>* only_if);

// --- what is due ---
// A position in the order in which rows fall due.
struct DuePosition {
  TimestampTz due_at = DT_NOBEGIN;
  TimestampTz created_at = DT_NOBEGIN;
  bool operator==(const DuePosition&) const = default;
};

// The stretch behind `after`, up to and including `up_to`; by default everything.
struct DueStretch {
  DuePosition after;
  DuePosition up_to = {DT_NOEND, DT_NOEND};
};

// Where the search for what may be sent begins, for each kind of row. Before it lie the entries of what has been sent,
// which no vacuum may take while a snapshot is held, and the due rows of topics that are away from the lane (paused, or
// in trouble), which stay due.
struct DueFronts {
  DuePosition keyed;
  DuePosition shared;
  bool moved() const { return !(keyed == DuePosition() && shared == DuePosition()); }
  // Whether a row that falls due at `time` may lie before one of them.
  bool Reach(TimestampTz time) const { return time <= keyed.due_at || time <= shared.due_at; }
};

// Moves the fronts up to the first rows that are there, whoever is sending them, and to `now` at most (Unix
// microseconds): rows that the lane puts there later are due later.
void PassSent(const ParkedOwner& owner, int64_t now, DueFronts* fronts);

// When the next event falls due that this worker may send and no worker is sending; if a thousand in a row are of
// topics that are away, when the last of these does (a lower bound). INT64_MAX: never.
int64_t NextDue(const ParkedOwner& owner, const std::vector<std::string>& without, const DueFronts& fronts);

// --- sending ---
enum class DueDecision : uint8_t {
  kTake,
  kBlock,  // something of its key has to go first, at a time not known: it becomes blocked
  kLater,  // another transaction has a row of its key locked: nothing is done with it now
};

// A row that is due, locked.
struct DueRow {
  KeyPoint point;
  uint64_t order_key = 0;
  bool scheduled = false;
  int64_t rank = 0;     // the order in which rows go: created_at, of a scheduled event the time it was due
  bool paused = false;  // its key was paused by an operator
  size_t bytes = 0;
  DueDecision decision = DueDecision::kTake;
};

// A waiting row of a key, from its head on.
struct WaitingRow {
  KeyPoint point;
  bool blocked = false;
};

// What else is known of a key with a due row.
struct DueKey {
  uint64_t order_key = 0;
  int64_t up_to = INT64_MIN;  // its last row that is due and retrying; INT64_MIN: scheduled ones only
  bool paused = false;
  bool dead = false;  // a dead row holds what is behind it
  KeyPoint first_dead;
  size_t first = 0;  // its waiting rows up to there, in DueWork::waiting
  size_t count = 0;
};

// Scratch of one claim.
struct DueWork {
  std::vector<DueRow> rows;
  std::vector<DueKey> keys;
  std::vector<WaitingRow> waiting;
  std::vector<uint64_t> headless;  // keys whose head has to be promoted
  std::vector<uint64_t> stuck;     // of these, those whose head another transaction has locked
  std::vector<uint64_t> unsure;    // keys of rows that were made blocked
  void Clear();
};

// Locks and appends what is due: with a key (of this lane), without one (of the route).
void ReadDue(const ParkedOwner& owner, const relay::ClaimLimits& limits, bool keyed, const DueStretch& stretch,
             DueWork* work);
// As ReadDue while topics are away: from `*front` on, which moves up to the first row of another topic. Reads a limited
// number of rows, without locking any of the topics that are away; returns false if there are more behind them.
bool ReadDueBehind(const ParkedOwner& owner, const relay::ClaimLimits& limits, bool keyed, DuePosition* front,
                   DueWork* work);
// Fills keys and waiting from the rows with a key, each searched from its front.
void ReadDueKeys(const ParkedOwner& owner, bool block, KeyFronts* fronts, DueWork* work);
// Gives the rows with a key their verdicts; puts the waiting rows of each key in order. Pure.
void JudgeDue(DueWork* work);
// Has the rows of stuck keys blocked: due, they would be in the way of all other keys until the head is let go. Pure.
void BlockStuck(DueWork* work);
// Leaves what is beyond the limits for later, and puts the rows into the order in which they go. Pure.
void CutTaken(const relay::ClaimLimits& limits, DueWork* work);
void BlockRows(const ParkedOwner& owner, const DueWork& work);

// Removes the copies of those replays of the rows in `work` that have been cancelled, as far as this worker may send
// them; appends the keys that they have held. Returns false if there was none.
bool DropCancelled(const ParkedOwner& owner, const DueWork& work, std::vector<uint64_t>* keys);

// Marks the rows that are to be taken and appends their events, in their order. Returns false if the lane is not ours.
bool TakeRows(const ParkedOwner& owner, const DueWork& work, relay::ClaimedChunk* chunk);

// Unmarks rows of this lane that an earlier worker left marked as being sent. Does not wait for locked ones: the
// transaction that has such a row locked unmarks it, or leaves it to the next claim, which takes it without asking.
void ForgetSenders(const ParkedOwner& owner);

// Makes due at `now` what is to be tried again later than the route's back-off reaches from there: its time was told by
// a clock that was ahead. (None tells infinity: that was put there by hand.) What is scheduled keeps its time, which
// its emitter has said. Reads all entries of what is due later, so it is for a lane that is taken over, and for a clock
// that has gone back.
void BringForward(const ParkedOwner& owner, int64_t now);

// --- outcomes ---
// Applies the outcomes, but not their consequences for other rows of the keys. `at`: a reading of the shared clock
// whose day's table must exist.
void ApplyOutcomes(const ParkedOwner& owner, std::span<const relay::Settlement> outcomes, int64_t at);

}  // namespace outbox::parked
