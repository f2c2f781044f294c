#include "sink/redis/server_info.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "sink/redis/errors.h"
#include "sink/redis/reply.h"

namespace outbox::sink {
namespace {

// Valkey 8 calls the field by another name.
std::string ReadMode(const redisReply& reply) {
  const std::string mode = InfoField(reply, "\nredis_mode:");
  return mode.empty() ? InfoField(reply, "\nserver_mode:") : mode;
}

bool IsReplica(const redisReply& reply) {
  return InfoField(reply, "\nrole:") == "slave";
}

bool AllZeros(std::string_view id) {
  return !id.empty() && id.find_first_not_of('0') == std::string_view::npos;
}

}  // namespace

std::string InfoField(std::string_view info, std::string_view name) {
  const size_t at = info.find(name);
  if (at == std::string_view::npos) {
    return {};
  }
  const std::string_view value = info.substr(at + name.size());
  return std::string(value.substr(0, value.find_first_of("\r\n")));
}

std::string ReadVersion(const redisReply& reply) {
  if (const std::string valkey = InfoField(reply, "\nvalkey_version:"); !valkey.empty()) {
    return "Valkey " + valkey;
  }
  const std::string redis = InfoField(reply, "\nredis_version:");
  return redis.empty() ? "" : "Redis " + redis;
}

int64_t ReadServerTime(const redisReply& reply) {
  return atoll(InfoField(reply, "\nserver_time_usec:").c_str()) / 1000;
}

Error ReadServerInfo(const redisReply& reply, ServerInfo* info) {
  if (Error error = PassingError(reply); !error.ok()) {
    return error;
  }
  info->run_id = InfoField(reply, "\nrun_id:");
  const int64_t now = ReadServerTime(reply);
  const int64_t uptime = atoll(InfoField(reply, "\nuptime_in_seconds:").c_str());
  info->began = now == 0 ? 0 : (now / 1000 - uptime) * 1000;
  if (ReadMode(reply) == "sentinel") {
    return {ErrorClass::kConfig, "SENTINEL",
            "this is a Redis Sentinel, not a Redis server: host and port have to name the primary itself"};
  }
  return {};
}

bool IsOfCluster(const redisReply& reply) {
  return ReadMode(reply) == "cluster";
}

bool HasForgotten(std::string_view before, std::string_view history) {
  return AllZeros(history) && !AllZeros(before);
}

Error ReadReplicationInfo(const redisReply& reply, ServerInfo* info) {
  std::string followed = InfoField(reply, "\nmaster_replid2:");
  const bool nobody = !IsReplica(reply) && AllZeros(followed);
  info->history = nobody ? std::move(followed) : InfoField(reply, "\nmaster_replid:");
  if (!IsReplica(reply)) {
    return PassingError(reply);
  }
  return {ErrorClass::kDestination, "READONLY",
          InfoField(reply, "\nmaster_link_status:") == "up"
              ? "the Redis server is a replica"
              : "the Redis server is a replica, and has no connection to its primary"};
}

Error ReadReceived(const redisReply& reply, ServerInfo* info) {
  const std::string bytes = InfoField(reply, "\ntotal_net_repl_input_bytes:");
  info->counts_bytes |= !bytes.empty();
  const int64_t received = info->counts_bytes ? atoll(bytes.c_str())
                                              : atoll(InfoField(reply, "\ncmdstat_replicaof:calls=").c_str()) +
                                                    atoll(InfoField(reply, "\ncmdstat_slaveof:calls=").c_str());
  if (received > 0) {
    char history[17];
    snprintf(history, sizeof(history), "%016llx", static_cast<unsigned long long>(received));
    info->history = history;
  }
  return PassingError(reply);
}

Error ReadPersistenceInfo(const redisReply& reply) {
  if (InfoField(reply, "\nloading:") == "1" || InfoField(reply, "\nasync_loading:") == "1") {
    return {ErrorClass::kDestination, "LOADING", "the Redis server is loading its data"};
  }
  return PassingError(reply);
}

// Streams have no expiry, unless another client sets one: of the eviction policies only allkeys-... remove them.
Error ReadMemoryInfo(const redisReply& reply) {
  const std::string limit = InfoField(reply, "\nmaxmemory:");
  const std::string policy = InfoField(reply, "\nmaxmemory_policy:");
  if (limit.empty() || limit == "0" || !policy.starts_with("allkeys-")) {
    return {};
  }
  return {ErrorClass::kDestination, "EVICTION",
          "the Redis server throws whole streams away when its memory is full: maxmemory-policy is " + policy +
              "; noeviction makes events wait instead"};
}

}  // namespace outbox::sink
