#include "sink/redis/commands.h"

#include <initializer_list>

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
size_t RoomFor(const Record& record, const Entry& entry) {
  constexpr size_t kOwnNames = 16;
  return entry.size + kOwnNames + resp::kBulkRoom * (4 + 2 * record.fields.size());
}

}  // namespace

bool HasContent(const Record& record) {
  return record.form != RecordForm::kStream || FieldArguments(record) != 0;
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

size_t AppendCommands(const Target& target, std::span<const Entry> entries, Record* scratch, resp::Buffer* out) {
  const CommandHead& head = target.head;
  const size_t head_room = resp::kCountRoom + head.bytes.size();
  const bool list = target.form == RecordForm::kList;
  if (list) {
    char* at = out->Begin(head_room);
    out->End(resp::PutBytes(head.bytes, resp::PutCount('*', head.arguments + entries.size(), at)));
  }
  for (const Entry& entry : entries) {
    RecordReader reader(entry.packed());
    reader.Next(scratch);  // it was read once before
    char* at = out->Begin(head_room + RoomFor(*scratch, entry));
    if (!list) {
      const size_t own = target.form == RecordForm::kStream ? FieldArguments(*scratch) : 1;
      at = resp::PutBytes(head.bytes, resp::PutCount('*', head.arguments + own, at));
    }
    out->End(target.form == RecordForm::kStream ? PutFields(*scratch, at) : PutBody(*scratch, at));
  }
  return list ? 1 : entries.size();
}

}  // namespace outbox::sink
