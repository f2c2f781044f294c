// How long from commit to a consumer, against how long from a bare client's send to the same consumer.
//
//   latency redis PORT STREAM RATE SECONDS [CONNINFO [TABLE]]
//   latency kafka BOOTSTRAP TOPIC RATE SECONDS [CONNINFO [TABLE]]
//
// With CONNINFO events are emitted, one per transaction, by four connections; without it a bare client (hiredis, or an
// idempotent librdkafka producer with acks=all and linger.ms=0) sends the records itself. With TABLE the four
// connections write a row there (key text, payload jsonb), and when it has been committed the bare client sends the
// record: what applications do by hand, and lose events by. That puts the load of the sessions on the machine. All keep
// to a schedule, so that a stall is not hidden. One consumer thread of this process (XREAD BLOCK, or a librdkafka
// consumer) stamps arrivals: one clock for both ends. Times count from when the commit had returned (it is only known
// then; an event that is even faster counts as 0), and for bare clients from just before the call. Bare clients also
// report send to acknowledgement.
//
// Prints one line: p50 and p99 in milliseconds, how late the last event of a sender was (a rate that cannot be
// kept), and without CONNINFO what the bare client took of CPU, in microseconds an event: its threads, and the one that
// sends on schedule.
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kafka_producer.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kEmitters = 4;
constexpr long kWarmUpSeconds = 3;  // of events that are not counted: a client that has just started connects

std::vector<std::atomic<int64_t>> sent, received, acknowledged;
std::atomic<long> arrivals{0};
std::atomic<bool> ready{false}, stop{false};
std::atomic<int64_t> client_cpu{0};  // nanoseconds
std::atomic<int64_t> late{0};        // of the last event of each sender: how far behind its schedule it was sent

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

[[noreturn]] void Die(const char* what, const char* why) {
  fprintf(stderr, "latency: %s: %s\n", what, why);
  _exit(1);
}

// Payloads end in "#<number>".
std::string Payload(long number) {
  std::string text = "{\"filler\": \"" + std::string(270, 'x') + "\", \"n\": \"#";
  return text + std::to_string(number) + "\"}";
}

[[gnu::noinline]] void Arrived(const char* payload, size_t size) {  // a point of scripts/bench-timeline
  std::string_view view(payload, size);
  size_t at = view.rfind('#');
  if (at == std::string_view::npos) {
    return;
  }
  size_t number = strtoul(payload + at + 1, nullptr, 10);
  if (number < received.size() && received[number] == 0) {
    received[number] = Now();
    arrivals++;
  }
}

[[noreturn]] void Refused(const char* what, PGconn* connection) {
  Die(what, PQerrorMessage(connection));
}

redisContext* ConnectRedis(const char* port) {
  redisContext* redis = redisConnect("127.0.0.1", atoi(port));
  if (redis == nullptr || redis->err != 0) {
    Die("Redis", "cannot connect");
  }
  return redis;
}

void ConsumeRedis(const char* port, const char* stream) {
  redisContext* redis = ConnectRedis(port);
  std::string last = "$";
  // The position of "$" would be lost between two calls: take the newest entry's id, or the very beginning.
  auto* newest = static_cast<redisReply*>(redisCommand(redis, "XREVRANGE %s + - COUNT 1", stream));
  last = newest->elements > 0 ? newest->element[0]->element[0]->str : "0";
  freeReplyObject(newest);
  ready = true;
  while (!stop) {
    auto* reply =
        static_cast<redisReply*>(redisCommand(redis, "XREAD COUNT 100 BLOCK 200 STREAMS %s %s", stream, last.c_str()));
    if (reply == nullptr) {
      Die("Redis", redis->errstr);
    }
    if (reply->type == REDIS_REPLY_ARRAY) {
      redisReply* entries = reply->element[0]->element[1];
      for (size_t i = 0; i < entries->elements; i++) {
        redisReply* fields = entries->element[i]->element[1];
        for (size_t f = 0; f + 1 < fields->elements; f += 2) {
          if (strcmp(fields->element[f]->str, "payload") == 0) {
            Arrived(fields->element[f + 1]->str, fields->element[f + 1]->len);
          }
        }
        last = entries->element[i]->element[0]->str;
      }
    }
    freeReplyObject(reply);
  }
  redisFree(redis);
}

rd_kafka_t* ConnectConsumer(const char* bootstrap) {
  char text[512];
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  const std::pair<const char*, const char*> options[] = {
      {"bootstrap.servers", bootstrap}, {"group.id", "latency"},         {"fetch.wait.max.ms", "200"},
      {"fetch.error.backoff.ms", "1"},  {"enable.auto.commit", "false"}, {"enable.partition.eof", "true"}};
  for (const auto& [name, value] : options) {
    if (rd_kafka_conf_set(conf, name, value, text, sizeof text) != RD_KAFKA_CONF_OK) {
      Die(name, text);
    }
  }
  rd_kafka_t* kafka = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof text);
  if (kafka == nullptr) {
    Die("librdkafka", text);
  }
  return kafka;
}

void ConsumeKafka(const char* bootstrap, const char* topic) {
  rd_kafka_t* kafka = ConnectConsumer(bootstrap);
  // All partitions, from their ends. Ready when each has said that it has nothing more.
  const rd_kafka_metadata_t* metadata;
  rd_kafka_topic_t* handle = rd_kafka_topic_new(kafka, topic, nullptr);
  if (rd_kafka_metadata(kafka, 0, handle, &metadata, 10000) != 0) {
    Die("Kafka", "no metadata");
  }
  int partitions = metadata->topics[0].partition_cnt, at_end = 0;
  auto* list = rd_kafka_topic_partition_list_new(partitions);
  for (int i = 0; i < partitions; i++) {
    rd_kafka_topic_partition_list_add(list, topic, i)->offset = RD_KAFKA_OFFSET_END;
  }
  rd_kafka_metadata_destroy(metadata);
  rd_kafka_assign(kafka, list);
  while (!stop) {
    rd_kafka_message_t* message = rd_kafka_consumer_poll(kafka, 200);
    if (message == nullptr) {
      continue;
    }
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      ready = ready || ++at_end >= partitions;
    } else if (message->err == 0) {
      Arrived(static_cast<const char*>(message->payload), message->len);
    }
    rd_kafka_message_destroy(message);
  }
  rd_kafka_topic_partition_list_destroy(list);
  rd_kafka_topic_destroy(handle);
  rd_kafka_consumer_close(kafka);
  rd_kafka_destroy(kafka);
}

void WaitUntil(int64_t when) {
  std::this_thread::sleep_until(Clock::time_point(std::chrono::nanoseconds(when)));
}

void Ended(long last, long rate, int64_t start) {
  const int64_t behind = sent[last] - (start + last * 1'000'000'000 / rate);
  for (int64_t most = late; behind > most && !late.compare_exchange_weak(most, behind);) {
  }
}

// Executes the statement with key and payload of every record that is this emitter's, on schedule, and calls
// `committed(i)`.
template <typename Committed>
void Write(const char* conninfo, const std::string& statement, int emitter, long count, long rate, int64_t start,
           const Committed& committed) {
  PGconn* connection = PQconnectdb(conninfo);
  if (PQstatus(connection) != CONNECTION_OK) {
    Refused("PostgreSQL", connection);
  }
  PGresult* prepared = PQprepare(connection, "write", statement.c_str(), 0, nullptr);
  if (PQresultStatus(prepared) != PGRES_COMMAND_OK) {
    Refused("prepare", connection);
  }
  PQclear(prepared);
  for (long i = emitter; i < count; i += kEmitters) {
    std::string payload = Payload(i), key = std::to_string(i % 1000);
    const char* values[] = {key.c_str(), payload.c_str()};
    WaitUntil(start + i * 1'000'000'000 / rate);
    PGresult* result = PQexecPrepared(connection, "write", 2, values, nullptr, nullptr, 0);
    sent[i] = Now();
    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK) {
      Refused("write", connection);
    }
    PQclear(result);
    committed(i);
  }
  Ended((count - 1 - emitter) / kEmitters * kEmitters + emitter, rate, start);
  PQfinish(connection);
}

void AppendXadd(redisContext* redis, const char* stream, long i) {
  std::string payload = Payload(i);
  redisAppendCommand(redis,
                     "XADD %s * id 01990000-0000-7000-8000-%012ld type measured aggregate_type latency created_at "
                     "%ld key %ld payload %b",
                     stream, i, i, i % 1000, payload.data(), payload.size());
}

// One connection that writes on schedule and reads replies as they come.
void SendToRedis(const char* port, const char* stream, long count, long rate, int64_t start) {
  redisContext* redis = ConnectRedis(port);
  long answered = 0;
  auto read_until = [&](int64_t when, long wanted) {
    while (answered < wanted && Now() < when) {
      pollfd fd{redis->fd, POLLIN, 0};
      timespec timeout{0, std::max<int64_t>(0, std::min<int64_t>(when - Now(), 999'999'999))};
      if (ppoll(&fd, 1, &timeout, nullptr) <= 0 || redisBufferRead(redis) != REDIS_OK) {
        continue;
      }
      void* reply = nullptr;
      while (redisGetReplyFromReader(redis, &reply) == REDIS_OK && reply != nullptr) {
        acknowledged[answered++] = Now();
        freeReplyObject(reply);
      }
    }
  };
  for (long i = 0; i < count; i++) {
    read_until(start + i * 1'000'000'000 / rate, i);
    WaitUntil(start + i * 1'000'000'000 / rate);
    AppendXadd(redis, stream, i);
    sent[i] = Now();
    int done = 0;
    while (done == 0 && redisBufferWrite(redis, &done) == REDIS_OK) {
    }
  }
  Ended(count - 1, rate, start);
  read_until(Now() + 10'000'000'000, count);
  redisFree(redis);
}

// The bare producer; any thread may send.
class KafkaClient {
 public:
  KafkaClient(const char* bootstrap, const char* topic)
      : topic_(topic),
        kafka_(bench::ConnectProducer(bootstrap, {},
                                      [](rd_kafka_t*, const rd_kafka_message_t* message, void*) {
                                        if (message->err == 0) {
                                          acknowledged[reinterpret_cast<size_t>(message->_private)] = Now();
                                        }
                                      })),
        poller_([this] {
          while (!flushed_) {
            rd_kafka_poll(kafka_, 100);
          }
          client_cpu += bench::ThreadCpu();
        }) {}
  ~KafkaClient() {
    rd_kafka_flush(kafka_, 10000);
    flushed_ = true;
    poller_.join();
    rd_kafka_destroy(kafka_);
    client_cpu += bench::producer_threads_cpu.exchange(0);
  }

  void Send(long i) {
    std::string payload = Payload(i), key = std::to_string(i % 1000), id = std::to_string(i);
    rd_kafka_producev(kafka_, RD_KAFKA_V_TOPIC(topic_), RD_KAFKA_V_KEY(key.data(), key.size()),
                      RD_KAFKA_V_VALUE(payload.data(), payload.size()),
                      RD_KAFKA_V_HEADER("id", id.data(), ssize_t(id.size())), RD_KAFKA_V_HEADER("type", "measured", -1),
                      RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE(reinterpret_cast<void*>(i)),
                      RD_KAFKA_V_END);
  }

 private:
  const char* const topic_;
  rd_kafka_t* const kafka_;
  std::atomic<bool> flushed_{false};
  std::thread poller_;
};

void SendToKafka(const char* bootstrap, const char* topic, long count, long rate, int64_t start) {
  KafkaClient client(bootstrap, topic);
  for (long i = 0; i < count; i++) {
    WaitUntil(start + i * 1'000'000'000 / rate);
    sent[i] = Now();
    client.Send(i);
  }
  Ended(count - 1, rate, start);
}

struct Destination {
  bool kafka;
  const char* address;
  const char* topic;
};

void EmitThroughOutbox(const char* conninfo, int emitter, long count, long rate, int64_t start) {
  Write(conninfo, "SELECT outbox.emit('latency', $1::text, 'measured', $2::jsonb)", emitter, count, rate, start,
        [](long) {});
}

// To Redis each connection has one of its own there, and waits for the answer.
void WriteByHand(const char* conninfo, const char* table, const Destination& to, KafkaClient* client, int emitter,
                 long count, long rate, int64_t start) {
  redisContext* redis = to.kafka ? nullptr : ConnectRedis(to.address);
  Write(conninfo, std::string("INSERT INTO ") + table + " (key, payload) VALUES ($1::text, $2::jsonb)", emitter, count,
        rate, start, [&](long i) {
          if (to.kafka) {
            client->Send(i);
            return;
          }
          AppendXadd(redis, to.topic, i);
          void* reply = nullptr;
          if (redisGetReply(redis, &reply) != REDIS_OK) {
            Die("Redis", redis->errstr);
          }
          acknowledged[i] = Now();
          freeReplyObject(reply);
        });
  if (redis != nullptr) {
    redisFree(redis);
  }
}

void Percentiles(const char* name, const std::vector<std::atomic<int64_t>>& ends, size_t from) {
  std::vector<double> times;
  for (size_t i = from; i < ends.size(); i++) {
    if (ends[i] != 0) {
      times.push_back(std::max<int64_t>(0, ends[i] - sent[i]) / 1e6);
    }
  }
  if (times.empty()) {
    return;
  }
  std::sort(times.begin(), times.end());
  printf("%s_p50=%.2f %s_p99=%.2f ", name, times[times.size() / 2], name, times[times.size() * 99 / 100]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    fprintf(stderr,
            "usage: latency redis PORT STREAM RATE SECONDS [CONNINFO [TABLE]]\n"
            "       latency kafka BOOTSTRAP TOPIC RATE SECONDS [CONNINFO [TABLE]]\n");
    return 2;
  }
  const bool kafka = strcmp(argv[1], "kafka") == 0;
  const long rate = atol(argv[4]), count = rate * (atol(argv[5]) + kWarmUpSeconds);
  for (auto* times : {&sent, &received, &acknowledged}) {
    *times = std::vector<std::atomic<int64_t>>(count);
  }
  std::thread consumer(kafka ? ConsumeKafka : ConsumeRedis, argv[2], argv[3]);
  while (!ready) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const int64_t start = Now() + 100'000'000;
  const int64_t cpu_before = bench::ThreadCpu();
  if (argc > 6) {
    const Destination to{kafka, argv[2], argv[3]};
    std::optional<KafkaClient> client;
    if (argc > 7 && kafka) {
      client.emplace(argv[2], argv[3]);
    }
    std::vector<std::thread> emitters;
    for (int i = 0; i < kEmitters; i++) {
      emitters.emplace_back([&, i] {
        if (argc > 7) {
          WriteByHand(argv[6], argv[7], to, client ? &*client : nullptr, i, count, rate, start);
        } else {
          EmitThroughOutbox(argv[6], i, count, rate, start);
        }
      });
    }
    for (auto& thread : emitters) {
      thread.join();
    }
  } else if (kafka) {
    SendToKafka(argv[2], argv[3], count, rate, start);
  } else {
    SendToRedis(argv[2], argv[3], count, rate, start);
  }
  client_cpu += bench::ThreadCpu() - cpu_before;
  for (int i = 0; i < 1000 && arrivals < count; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  stop = true;
  consumer.join();
  const size_t warm = rate * kWarmUpSeconds;
  Percentiles("received", received, warm);
  Percentiles("acknowledged", acknowledged, warm);
  if (argc == 6) {
    printf("client_cpu=%.2f ", static_cast<double>(client_cpu) / 1e3 / static_cast<double>(count));
  }
  printf("late=%.2f arrived=%ld of=%ld\n", static_cast<double>(late) / 1e6, arrivals.load(), count);
  return arrivals == count ? 0 : 1;
}
