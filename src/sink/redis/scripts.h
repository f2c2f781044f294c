// The scripts that write a batch in order [-]. A plain pipeline goes on behind a refused command, so that later events
// overtake the refused one; a script stops. One key per script, so that it runs on any node that holds the key.
//
// Both answer {records done, error text}, the one for streams {records done, first id, last id, error text} ("" when
// none was done): without an error text all were done. A refused command is caught (pcall): what was done before it
// stays done and is counted.
#pragma once

namespace outbox::sink {

// KEYS: stream. ARGV: MAXLEN or '', then for each record the number of its field names and values, and these.
inline constexpr char kStreamScript[] = R"(
local key, maxlen, last = KEYS[1], ARGV[1], #ARGV
local at, done = 2, 0
local first, final = '', ''
while at <= last do
  local count = tonumber(ARGV[at])
  local reply
  if maxlen == '' then
    reply = redis.pcall('XADD', key, '*', unpack(ARGV, at + 1, at + count))
  else
    reply = redis.pcall('XADD', key, 'MAXLEN', '~', maxlen, '*', unpack(ARGV, at + 1, at + count))
  end
  if type(reply) == 'table' and reply.err then
    return {done, first, final, reply.err}
  end
  done = done + 1
  final = reply
  if done == 1 then
    first = reply
  end
  at = at + count + 1
end
return {done, first, final}
)";

// ARGV: channel, then the messages. A channel is no key.
inline constexpr char kPublishScript[] = R"(
for at = 2, #ARGV do
  local reply = redis.pcall('PUBLISH', ARGV[1], ARGV[at])
  if type(reply) == 'table' and reply.err then
    return {at - 2, reply.err}
  end
end
return {#ARGV - 1}
)";

// unpack() puts a record's fields on Lua's stack, which takes 8,000 values; more fields go as a plain XADD, alone.
inline constexpr unsigned kMaxScriptArguments = 4000;

}  // namespace outbox::sink
