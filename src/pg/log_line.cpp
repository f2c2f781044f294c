#include "pg/log_line.h"

#include "base/fault_point.h"

extern "C" {
#include "lib/stringinfo.h"
}

namespace outbox::pg {

namespace {

ErrorContextCallback own_lines;
char who[NAMEDATALEN * 2 + 64];  // of a background process: its first fields; "": none
// The event of the line that is being written; "": a line of PostgreSQL itself. A topic has 512 bytes, one of which can
// be five here (\\x01), and names of other things 63.
char pending[4096];

// Words stand as they are, all else in quotes.
void AppendField(StringInfo to, const LogField& field) {
  if (field.value == nullptr || field.value[0] == '\0') {
    return;
  }
  appendStringInfo(to, " %s=", field.key);
  if (strspn(field.value, "abcdefghijklmnopqrstuvwxyz0123456789_.-") == strlen(field.value)) {
    appendStringInfoString(to, field.value);
    return;
  }
  appendStringInfoChar(to, '"');
  for (const char* c = field.value; *c != '\0'; c++) {
    if (*c == '"' || *c == '\\') {
      appendStringInfoChar(to, '\\');
    }
    appendStringInfoChar(to, *c == '\n' || *c == '\r' ? ' ' : *c);
  }
  appendStringInfoChar(to, '"');
}

void AddOwn(void*) {
  errcontext_msg("outbox:%s%s", who, pending[0] != '\0' ? pending : " event=server");
  pending[0] = '\0';
}

}  // namespace

void NameLogLines(const char* process, const char* database) {
  StringInfoData text;
  initStringInfo(&text);
  AppendField(&text, {"process", process});
  AppendField(&text, {"database", database});
  strlcpy(who, text.data, sizeof(who));
  pfree(text.data);
  own_lines.callback = AddOwn;
  own_lines.arg = nullptr;
  own_lines.previous = error_context_stack;
  error_context_stack = &own_lines;
}

int LogEvent(const char* event, std::initializer_list<LogField> fields) {
  OUTBOX_FAULT_POINT("log.line");
  StringInfoData text;
  initStringInfo(&text);
  AppendField(&text, {"event", event});
  for (const LogField& field : fields) {
    AppendField(&text, field);
  }
  if (who[0] != '\0') {
    strlcpy(pending, text.data, sizeof(pending));  // AddOwn follows
  } else {
    errcontext_msg("outbox: process=session%s", text.data);
  }
  pfree(text.data);
  return 0;
}

const char* LogNumber(int64 number) {
  return psprintf(INT64_FORMAT, number);
}

bool MayTellOfRow(int sqlstate) {
  // Data, constraints, and what PL/pgSQL raises.
  const char* code = unpack_sql_state(sqlstate);
  return strncmp(code, "22", 2) == 0 || strncmp(code, "23", 2) == 0 || strncmp(code, "P0", 2) == 0;
}

}  // namespace outbox::pg
