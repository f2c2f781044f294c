#include <string>

#include "base/letter_case.h"
#include "base/trace_comment.h"
#include "base/traceparent.h"

#include "emit/check.h"
#include "emit/header.h"
#include "emit/known_topics.h"
#include "emit/trace.h"
#include "pg/settings.h"
#include "pg/transaction.h"

extern "C" {
#include "access/xact.h"
#include "tcop/tcopprot.h"
}

namespace outbox::emit {

namespace {

constexpr size_t kMaxTraceparent = 255;  // IsTraceparent()
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

const char* Usable(const char* text, size_t most) {
  return text != nullptr && IsHeaderText(text, most) ? text : nullptr;
}

// nullptr: a zero byte is in it, at which it would end for all who read it.
const char* Copied(const std::string& text) {
  if (text.find('\0') != std::string::npos) {
    return nullptr;
  }
  char* copy = static_cast<char*>(palloc_extended(text.size() + 1, MCXT_ALLOC_NO_OOM));
  if (copy != nullptr) {
    memcpy(copy, text.c_str(), text.size() + 1);
  }
  return copy;
}

// Owns strings, and calls nothing that raises.
TraceContext OfComment(const char* statement) noexcept {
  try {
    const TraceComment comment = ReadTraceComment(statement);
    return {Copied(comment.traceparent), Copied(comment.tracestate), Copied(comment.baggage)};
  } catch (...) {
    return {};
  }
}

// What is too long to be used is as none.
template <size_t kRoom>
void Keep(char (&to)[kRoom], const char* value) {
  if (value == nullptr || strlcpy(to, value, kRoom) >= kRoom) {
    to[0] = '\0';
  }
}

const char* Kept(const char* value) {
  return value[0] == '\0' ? nullptr : value;
}

// The comment of one long statement.
struct {
  const char* statement;
  TimestampTz start;
  LocalTransactionId transaction;
  char traceparent[kMaxTraceparent + 1];
  char tracestate[kMaxTracestate + 1];
  char baggage[kMaxBaggage + 1];
} remembered;

// Of the statement that the client sent. To look for its end for each event that it emits would take the square of its
// length, so a long one is read once. Another statement can come to the same place, but with another message of the
// client, whose time is another.
TraceContext OfStatement(const char* statement) {
  constexpr size_t kLong = 8192;
  if (strnlen(statement, kLong) < kLong) {
    return OfComment(statement);
  }
  const TimestampTz start = GetCurrentStatementStartTimestamp();
  const LocalTransactionId transaction = pg::CurrentTransaction();
  if (remembered.statement != statement || remembered.start != start || remembered.transaction != transaction) {
    const TraceContext found = OfComment(statement);
    remembered.statement = statement;
    remembered.start = start;
    remembered.transaction = transaction;
    Keep(remembered.traceparent, found.traceparent);
    Keep(remembered.tracestate, found.tracestate);
    Keep(remembered.baggage, found.baggage);
  }
  return {Kept(remembered.traceparent), Kept(remembered.tracestate), Kept(remembered.baggage)};
}

}  // namespace

std::string_view TraceHeader(std::string_view name) {
  for (const std::string_view known : {"traceparent", "tracestate", "baggage"}) {
    if (name.size() == known.size() && EqualsIgnoringCase(name, known)) {
      return known;
    }
  }
  return {};
}

void LowerTraceHeaders(NewEvent* event) {
  HeaderObject lowered;
  JsonbIterator* iterator = JsonbIteratorInit(&event->headers->root);
  JsonbValue item;
  std::string_view name;
  JsonbIteratorToken token = JsonbIteratorNext(&iterator, &item, false);
  while ((token = JsonbIteratorNext(&iterator, &item, true)) != WJB_DONE) {
    if (token != WJB_KEY && token != WJB_VALUE) {
      continue;
    }
    const std::string_view text(item.val.string.val, static_cast<size_t>(item.val.string.len));
    if (token == WJB_KEY) {
      name = text;
      continue;
    }
    const std::string_view known = TraceHeader(name);
    if (known.empty() || known == name) {
      lowered.Add(name, text);
    } else if (!HasHeader(event, known.data())) {
      lowered.Add(known, text);
    }
  }
  event->headers = lowered.Finish();
}

void AddTrace(NewEvent* event, const TraceContext& context) {
  const bool traced = context.traceparent != nullptr && IsTraceparent(context.traceparent);
  const char* tracestate = Usable(context.tracestate, kMaxTracestate);
  const char* baggage = Usable(context.baggage, kMaxBaggage);
  const auto add = [event](const char* name, const char* value) {
    const bool free = !HasHeader(event, name) && !HeaderIsTaken(event, name);
    if (free) {
      AddHeader(event, name, value, Wins::kCaller);
    }
    return free;
  };
  // A tracestate belongs to its traceparent.
  if (traced && add("traceparent", context.traceparent) && tracestate != nullptr) {
    add("tracestate", tracestate);
  }
  // The largest of them, and of the least weight.
  if (baggage != nullptr && HeaderBytes(event) + HeaderSize(strlen("baggage"), strlen(baggage)) <= kMaxHeaders) {
    add("baggage", baggage);
  }
}

void AddTraceContext(NewEvent* event) {
  // Beside none, or beside another one than its own, it means nothing, and readers throw it away (W3C Trace
  // Context 3.3).
  if (HasHeader(event, "tracestate") && !HasHeader(event, "traceparent")) {
    RemoveHeader(event, "tracestate");
  }
  const auto& settings = pg::settings.trace;
  if (settings.traceparent[0] != '\0' || settings.baggage[0] != '\0') {
    AddTrace(event, {settings.traceparent, settings.tracestate, settings.baggage});
  }
  if (settings.from_comment && debug_query_string != nullptr) {
    AddTrace(event, OfStatement(debug_query_string));
  }
}

}  // namespace outbox::emit
