// Reading rows of outbox_internal.parked that are to be sent [P].
#pragma once

#include <string>
#include <vector>

#include "base/event.h"
#include "base/status.h"
#include "parked/key_fronts.h"
#include "pg/prelude.h"
#include "pg/statement_arguments.h"
#include "relay/common/parked_log.h"

namespace outbox::parked {

// error_class, error_code and error_message of rows, as arrays; NULL where there is no error.
class ErrorColumns {
 public:
  explicit ErrorColumns(size_t rows) : class_(rows), code_(rows), message_(rows) {}
  void Add(const Error& error);
  void AddTo(pg::Arguments* arguments);

 private:
  pg::Column class_, code_, message_;
};

// Places of keys, as arrays of created_at, replay and id.
class FrontColumns {
 public:
  explicit FrontColumns(size_t rows) : created_at_(rows), replay_(rows), id_(rows) {}
  void Add(const KeyPoint& point);
  void AddTo(pg::Arguments* arguments);

 private:
  pg::Column created_at_, replay_, id_;
};

// What a row is known by within its route.
struct RowKey {
  Datum created_at, id, replay;
};
// From a row of the last result, which begins with these. Does not live in it.
RowKey ReadKey(uint64 row);

// Rows of one route, as arrays of created_at, id and replay.
class RowColumns {
 public:
  explicit RowColumns(size_t rows) : created_at_(rows), id_(rows), replay_(rows) {}
  void Add(const KeyPoint& point);
  void Add(const RowKey& key);
  void AddTo(pg::Arguments* arguments);
  int count() const { return id_.count; }

 private:
  pg::Column created_at_, id_, replay_;
};

// The place of what was claimed.
KeyPoint PointOf(const relay::Settlement& outcome);

// text[]. A statement looks a topic up in it with IN (SELECT unnest($n)), which makes a hash table: ANY ($n) compares
// with one after the other, and there may be a thousand of them for each of a thousand rows.
Datum TopicArray(const std::vector<std::string>& topics);

// The columns that ReadClaimed expects, of a row of outbox_internal.parked under the alias p, which is due. What
// goes before its deliver_at (retry() has it go, or it is replayed) was due when it went.
#define OUTBOX_CLAIMED_COLUMNS                                                                                      \
  "p.created_at, p.id, p.replay, p.order_key, p.state, p.attempts, p.aggregate_type, p.aggregate_id, p.event_type," \
  " p.payload, p.content_type, p.headers, p.own_topic, CASE WHEN p.deliver_at IS NOT NULL THEN "                    \
  "least(p.deliver_at, p.due_at) WHEN p.state = 'scheduled' AND p.replay = 0 THEN p.due_at END"

// From a row of the last result, the columns beginning at `column`. Bytes go into the arena. A replay carries the
// header outbox-replay with its number.
void ReadClaimed(uint64 row, int column, Arena* arena, relay::Claimed* claimed);

}  // namespace outbox::parked
