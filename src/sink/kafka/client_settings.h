// From a destination's options to a librdkafka configuration [-]: what the sink fixes, its defaults, then the options.
#pragma once

#include <librdkafka/rdkafka.h>

#include <cstdint>
#include <string>

#include "base/status.h"
#include "sink/named_files.h"
#include "sink/protocol.h"

namespace outbox::sink::kafka {

using PartitionerFunction = int32_t (*)(const rd_kafka_topic_t*, const void* key, size_t key_size, int32_t partitions,
                                        void* topic_opaque, void* message_opaque);

// How long the sink is patient, in microseconds. MakeSettings() adds linger.ms, for which the library keeps a record
// before it sends it, to what counts from a record's way into the library.
struct Patience {
  // A topic may take nothing for so long: a broker that dies has successors after 10 s or so.
  int64_t stalled = 15'000'000;
  // The same where the broker that leads the partition lets nobody in: it would not get better by waiting.
  int64_t refused = 1'000'000;
  // Until larger batches than a topic has refused are tried the first time.
  int64_t raise = 60'000'000;
};

// What Settings::Explain() begins with that it adds to a login by Kerberos.
inline constexpr char kOfKerberos[] = "; GSSAPI ";

struct Settings {
  // Applied in this order, later ones win; the fixed ones come last.
  Options defaults;
  Options chosen;
  Options fixed;
  // The library's partitioner for records with a key; nullptr: Java's murmur2 (the default).
  PartitionerFunction partitioner = nullptr;
  bool hash_null_keys = false;  // partitioners without "_random" send every record without a key to one partition
  bool log_to_stderr = false;   // with `debug`
  bool compresses = false;      // a record may take less in a batch than it has
  Patience patience;
  int64_t linger_micros = 0;
  int addresses = 1;  // in bootstrap.servers
  NamedFiles files;   // that the library reads once for each client

  // What a librdkafka client is to be called with; the caller owns it until rd_kafka_new takes it.
  Status MakeConf(rd_kafka_conf_t** conf) const;
  // What the library says of a broker that refuses us, or is refused, with the reason where it leaves that out, and
  // what is of this library's making: `version` as rd_kafka_version() has it.
  std::string Explain(int code, std::string text, int version = rd_kafka_version()) const;
  // Why rd_kafka_new() made none of it, as far as it says.
  std::string WhyNone(const char* said) const;
};

// Whether the library of that version, as rd_kafka_version() has it, would end the program once a token is renewed.
bool CrashesAtRenewal(const Options& chosen, int version);

// Fails (class kConfig) when the library refuses a value. Options are checked against our allow-list before they come.
Status MakeSettings(const SinkConfig& config, Settings* settings);

}  // namespace outbox::sink::kafka
