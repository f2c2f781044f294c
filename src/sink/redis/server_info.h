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
  std::string run_id;          // of the process; "": it does not tell
  std::string replication_id;  // of the history of its data
  int64_t began = 0;  // when the process did, to the second, in milliseconds of its own clock; 0: it does not tell
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
// INFO replication. An error if it is a replica: those take no writes and may be empty for a while, with all that a
// restart or a failover brings along. They are told by what they say of themselves, before a refused write tells.
Error ReadReplicationInfo(const redisReply& reply, ServerInfo* info);
// INFO persistence. An error while it loads its data.
Error ReadPersistenceInfo(const redisReply& reply);
// INFO memory. A warning if it may throw whole streams away.
Error ReadMemoryInfo(const redisReply& reply);

}  // namespace outbox::sink
