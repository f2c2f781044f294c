// What a Redis server says of itself in INFO [-]: which run it is, whether it takes writes, whether it keeps streams.
//
// Pure functions of a reply. A server that refuses INFO, or leaves a field out, tells nothing: no error. One that
// cannot answer now (BUSY) is asked again: its own error.
#pragma once

#include <hiredis/hiredis.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "sink/redis/reply.h"

namespace outbox::sink {

// Which history the data of a server have. A process that becomes a replica takes another's data for its own. It keeps
// its run id and its connections, and may be a primary again before anybody looks. Of a primary INFO tells:
//
//   received   master_replid2   what that means                                       its history
//   nothing    zeros            it has followed nobody                                zeros
//   nothing    an id            it was to follow another, which sent nothing; or a    master_replid
//                               restart has read the id from its disk; or it counts
//                               anew (CONFIG RESETSTAT)
//   something  any              its data are what came then, and what came after      how much it has received
//
// Neither id tells for long. When there was no replica for repl-backlog-ttl, an hour, a primary takes another
// master_replid, and forgets whom it followed: master_replid2 is zeros then, as of one that never did. One that has
// followed nobody takes another master_replid also when its first replica comes (a backup comes as one). What a process
// has received of a primary grows whenever it gets anything of one, and by nothing else. It begins with the process, as
// the run id does. Before Redis 7 nothing counts that, but how often it was told whom to follow (not by a cluster).
struct ServerInfo {
  std::string run_id;         // of the process; "": it does not tell
  std::string history;        // of its data; "": it does not tell
  bool counts_bytes = false;  // that it receives as a replica: from Redis 7 on
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
// restart or a failover brings along. They are told by what they say of themselves, before a refused write tells. The
// history is that of one which has received nothing.
Error ReadReplicationInfo(const redisReply& reply, ServerInfo* info);
// The sections of INFO of which one tells what the server has received. They are asked behind INFO replication, so that
// nothing that came before the answer to that is missed.
inline constexpr std::array kReceivedIn = {"stats", "commandstats"};
inline const char* ReceivedIn(const ServerInfo& info) {
  return kReceivedIn[info.counts_bytes ? 0 : 1];
}
// Of either. An error if it cannot answer now.
Error ReadReceived(const redisReply& reply, ServerInfo* info);
// Whether a primary of the first history may be the same one: it counts anew, or does not know any more whom it
// followed.
bool HasForgotten(std::string_view before, std::string_view history);
// INFO persistence. An error while it loads its data.
Error ReadPersistenceInfo(const redisReply& reply);
// INFO memory. A warning if it may throw whole streams away.
Error ReadMemoryInfo(const redisReply& reply);

}  // namespace outbox::sink
