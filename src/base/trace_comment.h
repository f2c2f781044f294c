// Trace context in a comment of an SQL statement, as SQLCommenter writes it [-].
#pragma once

#include <string>
#include <string_view>

namespace outbox {

struct TraceComment {
  std::string traceparent;  // as written, decoded; not checked
  std::string tracestate;
  std::string baggage;
};

// The values of the comment that ends the statement, or else of the one that begins it: `/*key='value',...*/`, values
// percent-encoded, quotes in them behind a backslash. What is no such comment has none. Text in between, such as string
// literals with data of users, is never looked at.
TraceComment ReadTraceComment(std::string_view statement);

}  // namespace outbox
