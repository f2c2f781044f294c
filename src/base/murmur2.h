// The hash by which Kafka's Java clients choose a key's partition [-]: murmur2, 32 bits, seed 0x9747b28c.
// Source: org.apache.kafka.common.utils.Utils.murmur2 of kafka-clients 4.1; a unit test holds its answers.
#pragma once

#include <cstdint>
#include <string_view>

namespace outbox {

uint32_t Murmur2(std::string_view bytes);

// The partition that a Java producer sends a record with this key to. `partitions` > 0.
inline int32_t KafkaPartition(std::string_view key, int32_t partitions) {
  return static_cast<int32_t>((Murmur2(key) & 0x7fffffffu) % static_cast<uint32_t>(partitions));
}

}  // namespace outbox
