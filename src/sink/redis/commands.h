// Commands [-]: what a connection says first, and records as XADD, RPUSH, PUBLISH.
//
// A stream entry has the fields `key` and `payload` (each absent where the record has none), then the record's own;
// or these alone (Record::fields_only). A list or channel gets the payload alone; a tombstone is the empty string
// there.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sink/record.h"
#include "sink/redis/resp.h"
#include "sink/redis/targets.h"
#include "sink/sink.h"

namespace outbox::sink {

// Who we are, and which database is meant: AUTH, SELECT; those that the options ask for.
std::vector<std::string> LoginCommands(const Options& options);
// Asks for nothing of a stream; refused to who may not read it, for the command or the key. From behind the last entry
// a server has nowhere to look; up to the first one it would walk over all that there are. To Redis 5 a count of none
// is no limit: it tells an entry with the largest id there is.
std::string ReadNothing(std::string_view stream);
// Whether a command can be made of it: a stream entry needs at least one field.
bool HasContent(const Record& record);
// `maxlen`: "" for none.
CommandHead MakeHead(RecordForm form, std::string_view name, std::string_view maxlen);
// Appends what Entry::batch holds of a record: its command, or, for a list, its value alone.
void AppendEntry(const Target& target, const Record& record, resp::Buffer* out);
// Appends the commands that write these entries, in order, and returns how many: one each, or for a list one for all,
// which is all or nothing.
size_t AppendCommands(const Target& target, std::span<const Entry> entries, resp::Buffer* out);

}  // namespace outbox::sink
