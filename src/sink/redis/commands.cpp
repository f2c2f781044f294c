#include "sink/redis/commands.h"

#include <initializer_list>

#include "sink/options.h"

namespace outbox::sink {
namespace {

CommandHead HeadOf(std::initializer_list<std::string_view> arguments) {
  CommandHead head{arguments.size(), {}};
  for (std::string_view argument : arguments) {
    resp::AppendBulk(argument, &head.bytes);
  }
  return head;
}

// A channel's message, a list's value.
char* PutBody(const Record& record, char* at) {
  return resp::PutBulk(record.body, at);
}

char* PutField(std::string_view name, std::string_view value, char* at) {
  return resp::PutBulk(value, resp::PutBulk(name, at));
}

// Whether a stream entry gets a field for them, besides the record's own.
bool HasOwnKey(const Record& record) {
  return record.key.data() != nullptr && !record.fields_only;
}

bool HasOwnBody(const Record& record) {
  return record.body.data() != nullptr && !record.fields_only;
}

char* PutFields(const Record& record, char* at) {
  if (HasOwnKey(record)) {
    at = PutField("key", record.key, at);
  }
  if (HasOwnBody(record)) {
    at = PutField("payload", record.body, at);
  }
  for (const Field& field : record.fields) {
    at = PutField(field.name, field.value, at);
  }
  return at;
}

size_t FieldArguments(const Record& record) {
  const size_t own = (HasOwnKey(record) ? 1 : 0) + (HasOwnBody(record) ? 1 : 0);
  return 2 * (own + record.fields.size());
}

// More than a record takes as arguments of a command.
size_t RoomFor(const Record& record) {
  constexpr size_t kOwnNames = 16;
  size_t room = kOwnNames + record.key.size() + record.body.size() + resp::kBulkRoom * (4 + 2 * record.fields.size());
  for (const Field& field : record.fields) {
    room += field.name.size() + field.value.size();
  }
  return room;
}

}  // namespace

std::string ReadNothing(std::string_view stream) {
  return resp::Command({"XREVRANGE", stream, "+", "+", "COUNT", "0"});
}

bool HasContent(const Record& record) {
  return record.form != RecordForm::kStream || FieldArguments(record) != 0;
}

std::vector<std::string> LoginCommands(const Options& options) {
  const std::string username = TextOption(options, "username", "");
  const std::string password = TextOption(options, "password", "");
  const int64_t db = IntegerOption(options, "db", 0);
  std::vector<std::string> commands;
  if (!username.empty()) {
    commands.push_back(resp::Command({"AUTH", username, password}));
  } else if (!password.empty()) {
    commands.push_back(resp::Command({"AUTH", password}));
  }
  if (db != 0) {
    commands.push_back(resp::Command({"SELECT", std::to_string(db)}));
  }
  return commands;
}

CommandHead MakeHead(RecordForm form, std::string_view name, std::string_view maxlen) {
  switch (form) {
    case RecordForm::kList:
      return HeadOf({"RPUSH", name});
    case RecordForm::kPublish:
      return HeadOf({"PUBLISH", name});
    case RecordForm::kStream:
      break;
  }
  return maxlen.empty() ? HeadOf({"XADD", name, "*"}) : HeadOf({"XADD", name, "MAXLEN", "~", maxlen, "*"});
}

void AppendEntry(const Target& target, const Record& record, resp::Buffer* out) {
  const CommandHead& head = target.head;
  char* at = out->Begin(resp::kCountRoom + head.bytes.size() + RoomFor(record));
  if (target.form != RecordForm::kList) {
    const size_t own = target.form == RecordForm::kStream ? FieldArguments(record) : 1;
    at = resp::PutBytes(head.bytes, resp::PutCount('*', head.arguments + own, at));
  }
  out->End(target.form == RecordForm::kStream ? PutFields(record, at) : PutBody(record, at));
}

size_t AppendCommands(const Target& target, std::span<const Entry> entries, resp::Buffer* out) {
  const CommandHead& head = target.head;
  const bool list = target.form == RecordForm::kList;
  if (list) {
    char* at = out->Begin(resp::kCountRoom + head.bytes.size());
    out->End(resp::PutBytes(head.bytes, resp::PutCount('*', head.arguments + entries.size(), at)));
  }
  for (size_t i = 0; i < entries.size();) {
    const Entry& first = entries[i];
    size_t size = 0;
    while (i < entries.size() && entries[i].batch == first.batch && entries[i].offset == first.offset + size) {
      size += entries[i++].size;
    }
    out->Append(std::string_view(*first.batch).substr(first.offset, size));
  }
  return list ? 1 : entries.size();
}

}  // namespace outbox::sink
