// librdkafka's mock cluster as a process, for machines where Apache Kafka cannot be had: one broker on a real port, so
// that the sink and kcat talk to it as to Kafka. It keeps nothing, knows no limits and dies with its last reader.
//
//   kafka_mock DIR     writes DIR/bootstrap, then makes topics as asked through the FIFO DIR/commands ("NAME
//   PARTITIONS",
//                      one a line) and says so in DIR/topics; ends on SIGTERM
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: kafka_mock DIR\n");
    return 2;
  }
  const std::string dir = argv[1];
  char text[512];
  rd_kafka_t* kafka = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), text, sizeof text);
  rd_kafka_mock_cluster_t* cluster = kafka != nullptr ? rd_kafka_mock_cluster_new(kafka, 1) : nullptr;
  const std::string fifo = dir + "/commands";
  if (cluster == nullptr || mkfifo(fifo.c_str(), 0600) != 0) {
    fprintf(stderr, "kafka_mock: cannot start\n");
    return 1;
  }
  FILE* bootstrap = fopen((dir + "/bootstrap.new").c_str(), "w");
  fprintf(bootstrap, "%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
  fclose(bootstrap);
  rename((dir + "/bootstrap.new").c_str(), (dir + "/bootstrap").c_str());

  FILE* commands = fopen(fifo.c_str(), "r+");  // r+: never at its end
  char name[300];
  int partitions = 0;
  while (commands != nullptr && fscanf(commands, "%299s %d", name, &partitions) == 2) {
    rd_kafka_mock_topic_create(cluster, name, partitions, 1);
    FILE* topics = fopen((dir + "/topics").c_str(), "a");
    fprintf(topics, "%s\n", name);
    fclose(topics);
  }
  return 1;
}
