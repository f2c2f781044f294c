// outbox-sink-redis: the process in which hiredis lives. Started by a relay worker (process_sink.h).
#include "sink/redis/redis_checkup.h"
#include "sink/redis/redis_sink.h"
#include "sink/serve.h"

int main() {
  outbox::sink::SinkProgram program{.library = outbox::sink::RedisSink::Library(),
                                    .make = outbox::sink::RedisSink::Make,
                                    .kind = outbox::sink::FindKind("outbox_redis"),
                                    .checkup = outbox::sink::redis::CheckUp};
  return outbox::sink::Serve(program);
}
