#include <string>

#include "base/trace_comment.h"
#include "base/traceparent.h"

#include "emit/header.h"
#include "emit/trace.h"
#include "pg/settings.h"

extern "C" {
#include "tcop/tcopprot.h"
}

namespace outbox::emit {

namespace {

constexpr size_t kMaxTracestate = 512;
constexpr size_t kMaxBaggage = 3000;

// Printable ASCII: what a header of HTTP may hold, and any encoding of a database.
bool IsHeaderText(const char* text, size_t most) {
  const size_t size = strlen(text);
  for (size_t i = 0; i < size; i++) {
    if (text[i] < 0x20 || text[i] > 0x7e) {
      return false;
    }
  }
  return size > 0 && size <= most;
}

struct Context {
  const char* traceparent;  // nullptr: none
  const char* tracestate;
  const char* baggage;
};

const char* Usable(const char* text, size_t most) {
  return text != nullptr && IsHeaderText(text, most) ? text : nullptr;
}

const char* UsableTraceparent(const char* text) {
  return text != nullptr && IsTraceparent(text) ? text : nullptr;
}

Context OfSettings() {
  return {UsableTraceparent(pg::settings.trace.traceparent), Usable(pg::settings.trace.tracestate, kMaxTracestate),
          Usable(pg::settings.trace.baggage, kMaxBaggage)};
}

const char* Copied(const std::string& text) {
  char* copy = static_cast<char*>(palloc_extended(text.size() + 1, MCXT_ALLOC_NO_OOM));
  if (copy != nullptr) {
    memcpy(copy, text.c_str(), text.size() + 1);
  }
  return copy;
}

// Owns strings, and calls nothing that raises.
Context OfComment(const char* statement) noexcept {
  try {
    const TraceComment comment = ReadTraceComment(statement);
    const char* traceparent = IsTraceparent(comment.traceparent.c_str()) ? Copied(comment.traceparent) : nullptr;
    return {traceparent, Copied(comment.tracestate), Copied(comment.baggage)};
  } catch (...) {
    return {};
  }
}

void Add(NewEvent* event, const Context& context) {
  // A tracestate belongs to its traceparent, and means nothing beside another one.
  if (context.traceparent != nullptr && !HasHeader(event, "traceparent")) {
    AddHeader(event, "traceparent", context.traceparent, Wins::kCaller);
    if (context.tracestate != nullptr) {
      AddHeader(event, "tracestate", context.tracestate, Wins::kCaller);
    }
  }
  if (context.baggage != nullptr && !HasHeader(event, "baggage")) {
    AddHeader(event, "baggage", context.baggage, Wins::kCaller);
  }
}

}  // namespace

void AddTraceContext(NewEvent* event) {
  const pg::Settings& settings = pg::settings;
  if (settings.trace.traceparent[0] != '\0' || settings.trace.baggage[0] != '\0') {
    Add(event, OfSettings());
  }
  if (settings.trace.from_comment && debug_query_string != nullptr) {
    Context context = OfComment(debug_query_string);
    context.tracestate = Usable(context.tracestate, kMaxTracestate);
    context.baggage = Usable(context.baggage, kMaxBaggage);
    Add(event, context);
  }
}

}  // namespace outbox::emit
