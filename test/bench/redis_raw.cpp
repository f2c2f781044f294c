// The measure for the Redis sink: a bare hiredis client that sends the records an outbox would, pipelined XADD.
//
//   redis_raw PORT STREAM COUNT [PAYLOAD_BYTES [PIPELINE]]
//
// Prints one line: records per second, CPU seconds per million records (this process only).
#include <hiredis/hiredis.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void Expect(redisContext* redis) {
  void* reply = nullptr;
  if (redisGetReply(redis, &reply) != REDIS_OK || static_cast<redisReply*>(reply)->type == REDIS_REPLY_ERROR) {
    fprintf(stderr, "redis_raw: %s\n", reply != nullptr ? static_cast<redisReply*>(reply)->str : redis->errstr);
    exit(1);
  }
  freeReplyObject(reply);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: redis_raw PORT STREAM COUNT [PAYLOAD_BYTES [PIPELINE]]\n");
    return 2;
  }
  const char* stream = argv[2];
  const long count = atol(argv[3]);
  const std::string payload(argc > 4 ? atoi(argv[4]) : 300, 'x');
  const long pipeline = argc > 5 ? atol(argv[5]) : 4000;
  redisContext* redis = redisConnect("127.0.0.1", atoi(argv[1]));
  if (redis == nullptr || redis->err != 0) {
    fprintf(stderr, "redis_raw: cannot connect\n");
    return 1;
  }

  const double cpu = CpuSeconds();
  const auto start = std::chrono::steady_clock::now();
  long unanswered = 0;
  char id[40], created_at[24], key[12];
  for (long i = 0; i < count; i++) {
    int id_size = snprintf(id, sizeof id, "01990000-0000-7000-8000-%012lx", i);
    int time_size = snprintf(created_at, sizeof created_at, "%ld", 1795257588127000 + i);
    int key_size = snprintf(key, sizeof key, "%ld", i % 1000);
    const char* words[] = {"XADD",  stream,       "*",        "id",  id,  "type",    "order.created", "aggregate_type",
                           "order", "created_at", created_at, "key", key, "payload", payload.data()};
    const size_t sizes[] = {4,
                            std::string::traits_type::length(stream),
                            1,
                            2,
                            size_t(id_size),
                            4,
                            13,
                            14,
                            5,
                            10,
                            size_t(time_size),
                            3,
                            size_t(key_size),
                            7,
                            payload.size()};
    redisAppendCommandArgv(redis, 15, words, sizes);
    if (++unanswered == 2 * pipeline) {  // never idle: half a pipeline is in the server's hands while the other is made
      for (; unanswered > pipeline; unanswered--) {
        Expect(redis);
      }
    }
  }
  for (; unanswered > 0; unanswered--) {
    Expect(redis);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  printf("rate=%.0f cpu_per_million=%.2f\n", count / seconds, (CpuSeconds() - cpu) * 1e6 / count);
  redisFree(redis);
  return 0;
}
