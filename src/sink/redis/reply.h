// Reading one reply of a Redis server [-]. hiredis owns the reply; views into it live as long as it does.
#pragma once

#include <hiredis/hiredis.h>

#include <string_view>

namespace outbox::sink {

// What a string, a status or an error says; "": the reply is none of them, or is empty.
inline std::string_view Text(const redisReply& reply) {
  return {reply.str, reply.str == nullptr ? 0 : reply.len};
}
// The same of a string alone.
inline std::string_view StringText(const redisReply& reply) {
  return reply.type == REDIS_REPLY_STRING ? Text(reply) : std::string_view();
}
inline bool IsError(const redisReply& reply) {
  return reply.type == REDIS_REPLY_ERROR;
}

}  // namespace outbox::sink
