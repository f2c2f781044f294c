// The rival that teams write themselves, as fast as it can be made: a poller that claims rows of a table with FOR
// UPDATE SKIP LOCKED, publishes them to Kafka with librdkafka, marks them and commits. Binary, in pipeline mode:
// marking, commit and the next claim are one round trip. Knows nothing of outbox; the table is the usual outbox table
// of scripts/bench-rivals.
//
//   poller CONNINFO BOOTSTRAP TOPIC [--batch N] [--until N] [-X property=value ...]
//
// Runs until N rows are published (--until), or SIGTERM; then prints rows=, seconds= (from the first claim that found
// something), its own cpu= and its session's server_cpu= in seconds. When there is nothing to do it looks again after a
// millisecond. Build: c++ -O2 -std=c++20 poller.cpp -lpq -lrdkafka
#include <arpa/inet.h>
#include <libpq-fe.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kafka_producer.h"

namespace {

volatile sig_atomic_t stop = 0;
uint64_t in_flight = 0;

[[noreturn]] void Die(const std::string& what) {
  fprintf(stderr, "poller: %s\n", what.c_str());
  exit(1);
}

double Seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void Report(rd_kafka_t*, const rd_kafka_message_t* message, void*) {
  if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
    Die(rd_kafka_err2str(message->err));
  }
  --in_flight;
}

constexpr Oid kUuidArray = 2951;

// The ids of the rows that were published, as a uuid[] in binary.
class Ids {
 public:
  void Clear() { bytes_.clear(), count_ = 0; }
  void Add(const char* id) {
    Number(16);
    bytes_.append(id, 16);
    ++count_;
  }
  uint32_t count() const { return count_; }
  std::string Array() const {
    std::string array;
    const uint32_t head[] = {htonl(1), 0, htonl(2950), htonl(count_), htonl(1)};
    array.assign(reinterpret_cast<const char*>(head), sizeof head);
    return array + bytes_;
  }

 private:
  void Number(uint32_t number) {
    number = htonl(number);
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  std::string bytes_;
  uint32_t count_ = 0;
};

class Poller {
 public:
  Poller(const char* conninfo, rd_kafka_t* client, const char* topic, int batch)
      : server_(PQconnectdb(conninfo)), client_(client), topic_(rd_kafka_topic_new(client, topic, nullptr)) {
    if (PQstatus(server_) != CONNECTION_OK) {
      Die(PQerrorMessage(server_));
    }
    claim_ =
        "SELECT id, aggregate_type, aggregate_id, event_type, payload::text, created_at::text FROM classic c"
        " WHERE published_at IS NULL ORDER BY c.created_at LIMIT " +
        std::to_string(batch) + " FOR UPDATE SKIP LOCKED";
    Prepare("claim", claim_.c_str(), nullptr, 0);
    Prepare("mark", "UPDATE classic SET published_at = now() WHERE id = ANY ($1)", &kUuidArray, 1);
    if (PQenterPipelineMode(server_) != 1) {
      Die("no pipeline mode");
    }
  }

  // What its session in the server has taken, in seconds; the last call.
  double ServerCpu() {
    PQexitPipelineMode(server_);
    PGresult* result = PQexec(server_, "SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)");
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
      Die(PQerrorMessage(server_));
    }
    const double seconds = atof(PQgetvalue(result, 0, 0)) / 1e9;
    PQclear(result);
    return seconds;
  }

  // How many rows were published.
  uint32_t Round() {
    if (ids_.count() > 0) {
      const std::string array = ids_.Array();
      const char* values[] = {array.data()};
      const int lengths[] = {static_cast<int>(array.size())};
      const int formats[] = {1};
      PQsendQueryPrepared(server_, "mark", 1, values, lengths, formats, 1);
      Send("COMMIT");
    }
    if (!open_ || ids_.count() > 0) {
      Send("BEGIN");
    }
    PQsendQueryPrepared(server_, "claim", 0, nullptr, nullptr, nullptr, 1);
    PQpipelineSync(server_);
    ids_.Clear();
    open_ = true;
    bool synced = false;
    while (!synced) {
      PGresult* result = Next();
      if (result == nullptr) {
        continue;
      }
      const ExecStatusType status = PQresultStatus(result);
      synced = status == PGRES_PIPELINE_SYNC;
      if (status == PGRES_TUPLES_OK) {
        Publish(result);
      } else if (status != PGRES_COMMAND_OK && !synced) {
        Die(PQerrorMessage(server_));
      }
      PQclear(result);
    }
    while (in_flight > 0) {
      rd_kafka_poll(client_, 10);
    }
    if (ids_.count() == 0) {
      Send("COMMIT");
      PQpipelineSync(server_);
      for (bool done = false; !done;) {
        PGresult* result = Next();
        done = result != nullptr && PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        PQclear(result);
      }
      open_ = false;
    }
    return ids_.count();
  }

 private:
  void Prepare(const char* name, const char* sql, const Oid* types, int count) {
    PGresult* result = PQprepare(server_, name, sql, count, types);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
      Die(PQerrorMessage(server_));
    }
    PQclear(result);
  }
  // The next result, or nothing at the end of a statement's.
  PGresult* Next() {
    PGresult* result = PQgetResult(server_);
    if (result == nullptr && PQstatus(server_) != CONNECTION_OK) {
      Die(PQerrorMessage(server_));
    }
    return result;
  }
  void Send(const char* sql) { PQsendQueryParams(server_, sql, 0, nullptr, nullptr, nullptr, nullptr, 0); }

  void Publish(const PGresult* rows) {
    const auto text = [rows](int row, int column) { return PQgetvalue(rows, row, column); };
    const auto size = [rows](int row, int column) { return static_cast<size_t>(PQgetlength(rows, row, column)); };
    for (int row = 0; row < PQntuples(rows); ++row) {
      char id[37];
      const auto* b = reinterpret_cast<const unsigned char*>(text(row, 0));
      snprintf(id, sizeof id, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
               b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
      rd_kafka_headers_t* headers = rd_kafka_headers_new(4);
      rd_kafka_header_add(headers, "id", -1, id, 36);
      rd_kafka_header_add(headers, "type", -1, text(row, 3), static_cast<ssize_t>(size(row, 3)));
      rd_kafka_header_add(headers, "aggregate_type", -1, text(row, 1), static_cast<ssize_t>(size(row, 1)));
      rd_kafka_header_add(headers, "created_at", -1, text(row, 5), static_cast<ssize_t>(size(row, 5)));
      for (;;) {
        const rd_kafka_resp_err_t error =
            rd_kafka_producev(client_, RD_KAFKA_V_RKT(topic_), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                              RD_KAFKA_V_KEY(text(row, 2), size(row, 2)), RD_KAFKA_V_VALUE(text(row, 4), size(row, 4)),
                              RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
          break;
        }
        if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
          Die(rd_kafka_err2str(error));
        }
        rd_kafka_poll(client_, 1);
      }
      ++in_flight;
      ids_.Add(text(row, 0));
    }
  }

  PGconn* server_;
  rd_kafka_t* client_;
  rd_kafka_topic_t* topic_;
  std::string claim_;
  Ids ids_;
  bool open_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    Die("CONNINFO BOOTSTRAP TOPIC [--batch N] [--until N] [-X property=value ...]");
  }
  int batch = 5000;
  uint64_t until = UINT64_MAX;
  std::vector<std::string> properties;
  for (int i = 4; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--batch") {
      batch = atoi(argv[i + 1]);
    } else if (name == "--until") {
      until = strtoull(argv[i + 1], nullptr, 10);
    } else if (name == "-X") {
      properties.emplace_back(argv[i + 1]);
    } else {
      Die("what is " + name + "?");
    }
  }
  signal(SIGTERM, [](int) { stop = 1; });
  Poller poller((std::string(argv[1]) + " application_name=poller").c_str(),
                bench::ConnectProducer(argv[2], properties, Report), argv[3], batch);
  uint64_t rows = 0;
  double began = 0;
  while (stop == 0 && rows < until) {
    const double at = Seconds(CLOCK_MONOTONIC);
    const uint32_t published = poller.Round();
    if (published > 0 && began == 0) {
      began = at;
    }
    rows += published;
    if (published == 0) {
      usleep(1000);
    }
  }
  const double seconds = began == 0 ? 0 : Seconds(CLOCK_MONOTONIC) - began;
  while (poller.Round() > 0) {  // marks the last ones
  }
  const double cpu = Seconds(CLOCK_PROCESS_CPUTIME_ID);
  printf("rows=%llu seconds=%.3f cpu=%.3f server_cpu=%.3f\n", static_cast<unsigned long long>(rows), seconds, cpu,
         poller.ServerCpu());
  return 0;
}
