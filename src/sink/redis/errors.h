// What a Redis error reply means [-]: one table, by the reply's first word. It has every word that Redis 8 and Valkey 8
// have (server.c, script.c, acl.c, cluster.c, t_stream.c, sentinel.c); tried by hand on Redis 7.0.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "sink/redis/reply.h"

namespace outbox::sink {

struct ReplyRule {
  const char* word;  // first word of the reply
  const char* text;  // generic ERR only: what the rest contains, any case; nullptr: anything
  ErrorClass error_class;
  const char* code;  // what Error::code says
  bool reconnect;    // another server may answer the same name: connect again
  bool capped;       // of unknown meaning: after kCappedReplies in a row the target's trouble, not the server's
};
inline constexpr unsigned kCappedReplies = 5;

// The server could not be spoken to in so long, and what it was that took so long.
Error ConnectTimeout(bool resolving, int64_t ms);

// In order of precedence; the last row matches everything.
std::span<const ReplyRule> ReplyRules();

// `reply` without the leading "-". The message quotes the server, but no arguments (they may be payload or secret).
const ReplyRule& FindReplyRule(std::string_view reply);
Error ReplyError(std::string_view reply);
// Of any reply; ok() where it is no error.
inline Error ErrorOf(const redisReply& reply) {
  return IsError(reply) ? ReplyError(Text(reply)) : Error();
}
// Of an error that answers EXEC: Redis puts the cause behind a text of its own.
Error WhyDiscarded(const redisReply& reply);
// Whether who is answered so to PING has been let in. What is refused then is that command alone, or writes, for which
// Redis takes a PING while it cannot save: what goes to channels is none.
bool IsLetIn(const Error& error);
// Whether the rule behind an error made by ReplyError() asks for a new connection.
bool NeedsReconnect(const Error& error);
// Whether it says how the server fares, and nothing about the question: asked again, the server may answer.
bool IsPassing(const Error& error);
inline Error PassingError(const redisReply& reply) {
  Error error = ErrorOf(reply);
  return IsPassing(error) ? error : Error();
}
// An error about a key that is not there.
bool SaysNoSuchKey(const redisReply& reply);
// Whether a command is refused, whatever it is about: by its name, to this user, or in words that nobody knows.
bool RefusesCommand(const redisReply& reply);
// Whether it is a key that this user may not use so.
bool RefusesKey(const redisReply& reply);
// Whether it is an error of unknown meaning.
bool IsCapped(const Error& error);

}  // namespace outbox::sink
