#include "base/order_key.h"

namespace outbox {

namespace {

constexpr uint64_t kBasis = 14695981039346656037ULL;
constexpr uint64_t kPrime = 1099511628211ULL;

uint64_t Add(uint64_t hash, std::string_view bytes) {
  for (size_t length = bytes.size(), i = 0; i < sizeof(uint32_t); ++i) {
    hash = (hash ^ ((length >> (8 * i)) & 0xff)) * kPrime;
  }
  for (char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * kPrime;
  }
  return hash;
}

uint64_t Fold(uint64_t hash) {
  const uint64_t folded = hash ^ (hash >> 32);
  return folded == 0 ? 1 : folded;
}

}  // namespace

uint64_t OrderKey(std::string_view topic, std::string_view aggregate_type, std::string_view aggregate_id) {
  return aggregate_id.data() == nullptr ? 0 : Fold(Add(Add(Add(kBasis, topic), aggregate_type), aggregate_id));
}

uint64_t OrderKeyer::operator()(std::string_view topic, std::string_view aggregate_type,
                                std::string_view aggregate_id) {
  if (aggregate_id.data() == nullptr) {
    return 0;
  }
  if (prefix_ == 0 || topic != topic_ || aggregate_type != aggregate_type_) {
    topic_ = topic;
    aggregate_type_ = aggregate_type;
    prefix_ = Add(Add(kBasis, topic), aggregate_type);
  }
  return Fold(Add(prefix_, aggregate_id));
}

}  // namespace outbox
