#include "log/window/row.h"

#include "log/window/blank.h"
#include "pg/encoding.h"
#include "pg/event_headers.h"

extern "C" {
#include "access/detoast.h"
#include "access/tupmacs.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif
}

namespace outbox::log {

namespace {

// The three leading columns have fixed size and are never NULL, so they lie at the same place in every row.
constexpr int kIdAt = 8;
constexpr int kXidAt = 24;
constexpr int kFirstVarlenaAt = 32;

// The bytes of a varlena, detoasted if need be.
std::string_view Bytes(const char* stored) {
  auto* value = reinterpret_cast<struct varlena*>(const_cast<char*>(stored));
  if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value)) {
    value = detoast_attr(value);
  }
  return {VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};
}

std::string_view Text(const char* stored) {
  return stored == nullptr ? std::string_view() : pg::Utf8(Bytes(stored));
}

int64 DeliverAt(const char* stored) {
  TimestampTz value = 0;
  memcpy(&value, stored, sizeof(value));
  return SaturatedUnixMicros(value);
}

}  // namespace

bool ViewRow(HeapTupleHeader tuple, RowView* row) {
  if (HeapTupleHeaderGetNatts(tuple) < kLogColumns) {
    return false;
  }
  const char* data = reinterpret_cast<const char*>(tuple) + tuple->t_hoff;
  bool has_nulls = (tuple->t_infomask & HEAP_HASNULL) != 0;
  int64 created_at = 0;
  memcpy(&created_at, data, sizeof(created_at));
  row->created_at = created_at + kPgEpochMicros;
  row->id = data + kIdAt;
  memcpy(&row->xid, data + kXidAt, sizeof(row->xid));
  const char* at = data + kFirstVarlenaAt;
  for (int i = kAggregateType; i <= kTopic; i++) {
    if (has_nulls && att_isnull(i, tuple->t_bits)) {
      row->value[i] = nullptr;
      continue;
    }
    // Padding before a varlena with a four-byte header is zero; a one-byte header never is.
    if (*at == '\0') {
      at = data + INTALIGN(at - data);
    }
    row->value[i] = at;
    at += VARSIZE_ANY(at);
  }
  row->deliver_at = has_nulls && att_isnull(kDeliverAt, tuple->t_bits) ? 0 : DeliverAt(data + DOUBLEALIGN(at - data));
  return true;
}

bool RowWanted(const RowView& row, const EventFilter* filter) {
  if (RowForgotten(row)) {
    return false;
  }
  Uuid id;
  memcpy(id.data(), row.id, id.size());
  return filter->Wants(Text(row.value[kAggregateType]), Text(row.value[kAggregateId]), Text(row.value[kEventType]), id,
                       Text(row.value[kTopic]));
}

std::string_view RowText(const RowView& row, days::LogColumn column) {
  return Text(row.value[column]);
}

// Neighbours mostly are of one type, and its words are read again when the event is sent and acknowledged.
void CopyRow(const RowView& row, Arena* arena, Event* event, const Event* before) {
  const Event none;
  const Event& neighbour = before == nullptr ? none : *before;
  const auto text = [arena, &row](int column, std::string_view same) {
    if (row.value[column] == nullptr) {
      return std::string_view();
    }
    const std::string_view text = Text(row.value[column]);
    return !IsNull(same) && same == text ? same : arena->Copy(text);
  };
  event->created_at = row.created_at;
  event->xid = row.xid;
  memcpy(event->id.data(), row.id, event->id.size());
  event->aggregate_type = text(kAggregateType, neighbour.aggregate_type);
  event->aggregate_id = text(kAggregateId, {});
  event->event_type = text(kEventType, neighbour.event_type);
  event->content_type = text(kContentType, neighbour.content_type);
  event->topic = text(kTopic, neighbour.topic);
  event->deliver_at = row.deliver_at;
  event->payload = row.value[kPayload] == nullptr ? std::string_view() : arena->Copy(Bytes(row.value[kPayload]));
  event->headers =
      row.value[kHeaders] == nullptr ? HeaderView() : pg::CopyHeaders(PointerGetDatum(row.value[kHeaders]), arena);
}

size_t RowBytes(const RowView& row) {
  size_t bytes = sizeof(Event);
  for (int i = kAggregateType; i <= kTopic; i++) {
    if (row.value[i] != nullptr) {
      bytes += toast_raw_datum_size(PointerGetDatum(row.value[i]));
    }
  }
  return bytes;
}

}  // namespace outbox::log
