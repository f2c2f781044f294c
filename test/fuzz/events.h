// For fuzz targets of formats: events made of the fuzzer's bytes, with room of their own for every text, so that a read
// past one of them is seen.
#pragma once

#include <list>
#include <string>
#include <utility>
#include <vector>

#include "base/event.h"
#include "format/record_format.h"
#include "fuzz.h"

namespace outbox::fuzz {

using Header = std::pair<std::string, std::string>;

inline bool Same(std::string_view a, std::string_view b) {
  return a == b && IsNull(a) == IsNull(b);
}

class Events {
 public:
  static constexpr int64_t kLatest = int64_t{1} << 53;  // Unix microseconds: the year 2255

  // The next one. `wall` is a time of its own.
  Event Take(Input* in, int64_t* wall) {
    Event event;
    event.created_at = static_cast<int64_t>(in->Below(kLatest));
    *wall = static_cast<int64_t>(in->Below(kLatest));
    event.id = in->Take<Uuid>();
    event.aggregate_type = Keep(in->Text());
    event.aggregate_id = KeepOrNull(in);
    event.event_type = Keep(in->Text());
    event.payload = KeepOrNull(in);
    event.content_type = KeepOrNull(in);
    event.topic = KeepOrNull(in);
    headers.clear();
    for (uint64_t n = in->Below(4); n > 0; --n) {
      std::string name(in->Text());
      headers.emplace_back(std::move(name), in->Text());
    }
    if (!headers.empty()) {
      event.headers.packed = Keep(Pack());
    }
    return event;
  }

  std::string_view Keep(std::string_view text) { return texts_.emplace_back(text); }

  // Whether a database in UTF-8 can hold it.
  bool IsUtf8(const Event& event) const {
    bool good = true;
    for (const std::string_view text :
         {event.aggregate_type, event.aggregate_id, event.event_type, event.content_type, event.topic}) {
      good = good && fuzz::IsUtf8(text);
    }
    for (const auto& [name, value] : headers) {
      good = good && fuzz::IsUtf8(name) && fuzz::IsUtf8(value);
    }
    return good;
  }

  std::vector<Header> headers;  // of the last one

 private:
  std::string_view KeepOrNull(Input* in) { return in->Flag() ? Keep(in->Text()) : std::string_view(); }

  std::string Pack() const {
    std::string packed;
    for (const auto& [name, value] : headers) {
      for (const std::string& text : {name, value}) {
        const auto size = static_cast<uint32_t>(text.size());
        packed.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(text);
      }
    }
    return packed;
  }

  std::list<std::string> texts_;
};

// Formats the event twice, by two lanes, one of which has formatted others before: the same bytes, or the same refusal.
// False: it was refused, with an error that is whole. *out, empty before, holds what *record refers to.
inline bool Formatted(format::RecordFormat* used, const Event& event, int64_t wall, std::string* out,
                      sink::Record* record, Error* error) {
  const bool good = used->Append(event, wall, out, error);
  format::RecordFormat fresh(std::make_shared<format::RouteSpec>(used->spec()));
  std::string again = "before";
  Error other;
  FUZZ_CHECK(fresh.Append(event, wall, &again, &other) == good && again == "before" + *out);
  if (!good) {
    FUZZ_CHECK(out->empty() && error->error_class == ErrorClass::kMessage && error->code == other.code);
    FUZZ_CHECK(!error->code.empty() && IsUtf8(error->message));
    return false;
  }
  sink::RecordReader reader(*out);
  FUZZ_CHECK(reader.Next(record));
  sink::Record none;
  FUZZ_CHECK(!reader.Next(&none) && reader.ok());
  return true;
}

}  // namespace outbox::fuzz
