#include "base/sip_hash.h"

#include <bit>

namespace outbox {

SipHash::SipHash(const Key& key)
    : v0_(key.low ^ 0x736f6d6570736575u),
      v1_(key.high ^ 0x646f72616e646f6du),
      v2_(key.low ^ 0x6c7967656e657261u),
      v3_(key.high ^ 0x7465646279746573u) {}

void SipHash::Rounds(int count) {
  for (int i = 0; i < count; ++i) {
    v0_ += v1_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v3_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v2_ = std::rotl(v2_, 32);
  }
}

void SipHash::Mix(uint64_t word) {
  v3_ ^= word;
  Rounds(2);
  v0_ ^= word;
}

void SipHash::Add(std::string_view bytes) {
  for (const char byte : bytes) {
    word_ |= uint64_t{static_cast<unsigned char>(byte)} << (8 * (size_ % 8));
    if (++size_ % 8 == 0) {
      Mix(word_);
      word_ = 0;
    }
  }
}

uint64_t SipHash::Finish() {
  Mix(word_ | uint64_t{size_ & 0xff} << 56);
  v2_ ^= 0xff;
  Rounds(4);
  return v0_ ^ v1_ ^ v2_ ^ v3_;
}

}  // namespace outbox
