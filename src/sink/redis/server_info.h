// What a Redis server says of itself in INFO [-]: which run it is, whether it takes writes, whether it keeps streams.
//
// Pure functions of a reply. A server that refuses INFO, or leaves a field out, tells nothing: no error. One that
// cannot answer now (BUSY) is asked again: its own error.
#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "sink/redis/reply.h"

namespace outbox::sink {

struct ServerInfo {
  std::string run_id;   // of the process; "": it does not tell
  std::string history;  // of its data, as ReadHistory() has it
  int64_t began = 0;    // when the process did, to the second, in milliseconds of its own clock; 0: it does not tell
};

// The value of a field of INFO ("\nname:"); "": the server does not tell.
std::string InfoField(std::string_view info, std::string_view name);
inline std::string InfoField(const redisReply& reply, std::string_view name) {
  return InfoField(StringText(reply), name);
}

// INFO server: "Redis 7.0.15"; "": it does not tell. Valkey has a version of its own beside that of Redis.
std::string ReadVersion(const redisReply& reply);
// INFO server. An error if this is no server that keeps data.
Error ReadServerInfo(const redisReply& reply, ServerInfo* info);
// INFO server. A node of a cluster takes what is in its own slots only.
bool IsOfCluster(const redisReply& reply);
// The clock that ids of streams are made of, in milliseconds; 0: it does not tell. Of INFO server.
int64_t ReadServerTime(const redisReply& reply);
// INFO replication: which history the server's data have; "": it does not tell. That is its replication id, which it
// changes when it becomes a primary again, with what may be another's data. But a primary that has followed no other
// server changes it, too: when its first replica comes (a backup comes as one), and when there was none for
// repl-backlog-ttl, an hour. The id before, by which it is known whom it followed (master_replid2), is zeros then, and
// so is its history.
std::string ReadHistory(const redisReply& reply);
// Whether a primary of the first history is the same one, of which it is not known any more whom it followed: that hour
// is over for it.
bool HasForgotten(std::string_view before, std::string_view history);
// INFO replication. An error if it is a replica: those take no writes and may be empty for a while, with all that a
// restart or a failover brings along. They are told by what they say of themselves, before a refused write tells.
Error ReadReplicationInfo(const redisReply& reply, ServerInfo* info);
// INFO persistence. An error while it loads its data.
Error ReadPersistenceInfo(const redisReply& reply);
// INFO memory. A warning if it may throw whole streams away.
Error ReadMemoryInfo(const redisReply& reply);

}  // namespace outbox::sink
