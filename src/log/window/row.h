// A row of the log as it lies in its page, and how it becomes an event [P].
#pragma once

#include "base/event.h"
#include "days/log_table.h"
#include "relay/common/lane_log.h"

namespace outbox::log {

using enum days::LogColumn;

// Points into a pinned page; valid while the pin is held.
struct RowView {
  int64 created_at;  // Unix microseconds
  uint64 xid;
  const char* id;                  // 16 bytes
  int64 deliver_at;                // Unix microseconds; 0: at once
  const char* value[kLogColumns];  // varlena as stored (short, compressed, external, ...); nullptr: NULL.
                                   // kAggregateType to kTopic
};

// Plain; never raises. `size` is the tuple's length in the page; false when the tuple does not fit the columns.
bool ViewRow(HeapTupleHeader tuple, RowView* row);

// The functions below may raise (detoasting) and throw bad_alloc; call them under a guard, with a transaction, an
// active snapshot and a short-lived memory context. What they allocate by palloc is left to that context.
bool RowWanted(const RowView& row, const EventFilter* filter);
// NULL where there is none. Until that context is reset.
std::string_view RowText(const RowView& row, days::LogColumn column);
// `before`: one whose bytes are in the same arena, or nullptr. What both say with the same words is there once.
void CopyRow(const RowView& row, Arena* arena, Event* event, const Event* before = nullptr);

// About how much memory CopyRow would take.
size_t RowBytes(const RowView& row);

}  // namespace outbox::log
