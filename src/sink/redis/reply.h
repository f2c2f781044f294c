// Reading one reply of a Redis server [-]. hiredis owns the reply; views into it live as long as it does.
#pragma once

#include <hiredis/hiredis.h>

#include <string_view>
#include <vector>

namespace outbox::sink {

// What a string, a status or an error says; "": the reply is none of them, or is empty.
inline std::string_view Text(const redisReply& reply) {
  return {reply.str, reply.str == nullptr ? 0 : reply.len};
}
// What a string says; "": the reply is no string, or is empty.
inline std::string_view StringText(const redisReply& reply) {
  return reply.type == REDIS_REPLY_STRING ? Text(reply) : std::string_view();
}
inline bool IsError(const redisReply& reply) {
  return reply.type == REDIS_REPLY_ERROR;
}

// A reply that is no array.
struct ReplyView {
  int type = REDIS_REPLY_NIL;
  std::string_view text;  // as Text(); "" of numbers
};

// Reads an array of such replies from the beginning of `bytes`. Returns how long it is; 0: that is something else, or
// not whole. hiredis would make objects of all.
size_t ReadElements(std::string_view bytes, std::vector<ReplyView>* elements);
// The elements of an array that hiredis has read.
void CopyElements(const redisReply& reply, std::vector<ReplyView>* elements);

}  // namespace outbox::sink
