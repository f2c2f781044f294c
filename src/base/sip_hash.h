// SipHash-2-4 [-]: a hash of 64 bits that nobody who does not know its key can foresee, so that nobody can choose texts
// that share one. Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012); test/unit/order_key_test.cpp has
// values of theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace outbox {

class SipHash {
 public:
  struct Key {
    uint64_t low = 0;
    uint64_t high = 0;
  };

  explicit SipHash(const Key& key);

  // In pieces: what counts is the bytes, one behind the other.
  void Add(std::string_view bytes);
  // Of all bytes. Nothing may be added after.
  uint64_t Finish();

 private:
  void Mix(uint64_t word);
  void Rounds(int count);

  uint64_t v0_, v1_, v2_, v3_;
  uint64_t word_ = 0;  // bytes that are no word yet, the first of them lowest
  size_t size_ = 0;    // of all bytes
};

}  // namespace outbox
