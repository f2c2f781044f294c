// Headers that emit itself adds to those of the caller [P]. Plain code.
#pragma once

#include <string_view>

#include "emit/new_event.h"
#include "pg/server_versions.h"

namespace outbox::emit {

// Collects an object of strings; a name that comes again counts the last time. What it is given stays until Finish().
class HeaderObject {
 public:
  void Add(std::string_view name, std::string_view value);
  // nullptr: there was none.
  Jsonb* Finish();

 private:
  pg::JsonbParts parts_;
  bool any_ = false;
};

// What a header counts for: Kafka's record format has the lengths of name and value before them, of two bytes each at
// most but where they are of 8 kB.
inline constexpr size_t kHeaderLengths = 4;
inline size_t HeaderSize(size_t name, size_t value) {
  return name + value + kHeaderLengths;
}
size_t HeaderBytes(const NewEvent* event);

// Which of two values counts where the caller gave the header, too.
enum class Wins { kCaller, kOurs };

void AddHeader(NewEvent* event, const char* name, const char* value, Wins wins);

void RemoveHeader(NewEvent* event, const char* name);

// The caller's header of that name; nullptr: there is none.
const char* HeaderOf(const NewEvent* event, const char* name);
bool HasHeader(const NewEvent* event, const char* name);

// schema_version and dataschema, if they were given as such, become headers. What cannot be meant is refused (22023).
void AddSchemaHeaders(NewEvent* event);
void CheckDataschema(const char* uri, size_t size);
void RefuseSchemaVersion(const char* what);

}  // namespace outbox::emit
