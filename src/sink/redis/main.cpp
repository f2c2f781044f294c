// outbox-sink-redis: the process in which hiredis lives. Started by a relay worker (process_sink.h).
#include "sink/redis/redis_sink.h"
#include "sink/serve.h"

int main() {
  outbox::sink::SinkProgram program{outbox::sink::RedisSink::Library(), outbox::sink::RedisSink::Make};
  return outbox::sink::Serve(program);
}
