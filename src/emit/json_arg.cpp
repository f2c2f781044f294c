// Input of the type outbox.json_arg [P]: json's own, with a hint. Output is json's.
#include "emit/arguments.h"
#include "pg/entry.h"

namespace {

void AddHint(void*) {
  if (geterrcode() == ERRCODE_STATEMENT_TOO_COMPLEX) {
    errhint(
        "The document is nested too deeply to be looked at. Make it flatter, raise max_stack_depth, or pass it to "
        "outbox.emit_text(..., content_type => 'application/json'), which takes it as it is.");
  } else if (geterrcode() != ERRCODE_QUERY_CANCELED && geterrcode() != ERRCODE_OUT_OF_MEMORY) {
    outbox::emit::KeepPayloadFromLog();
    errhint("Pass one JSON document; text that is not JSON goes through outbox.emit_text().");
  }
}

// Lets `input` run with a hint added to whatever it raises.
Datum WithHint(PGFunction input, FunctionCallInfo fcinfo) {
  ErrorContextCallback context;
  context.previous = error_context_stack;
  context.callback = AddHint;
  context.arg = nullptr;
  error_context_stack = &context;
  Datum result = input(fcinfo);
  error_context_stack = context.previous;
  return result;
}

}  // namespace

OUTBOX_FUNCTION(outbox_json_arg_in) {
  return WithHint(json_in, fcinfo);
}
OUTBOX_FUNCTION(outbox_json_arg_recv) {
  return WithHint(json_recv, fcinfo);
}
