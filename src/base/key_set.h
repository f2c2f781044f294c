// A set of 64-bit hashes [-] (order_key.h), for a look-up per event: open addressing with linear probing, one cache
// line for nearly every miss, 8 to 16 bytes a key. Erasing closes the gap (Knuth, TAOCP vol. 3, 6.4, algorithm R). 0
// cannot be a member.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace outbox {

class KeySet {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  bool Contains(uint64_t key) const {
    if (size_ == 0) {
      return false;
    }
    for (size_t i = Home(key);; i = (i + 1) & mask_) {
      if (slots_[i] == key) {
        return key != 0;
      }
      if (slots_[i] == 0) {
        return false;
      }
    }
  }

  // Returns false if it was there.
  bool Insert(uint64_t key) {
    if (key == 0) {
      return false;
    }
    if ((size_ + 1) * 3 > slots_.size() * 2) {
      Grow();
    }
    size_t i = Home(key);
    while (slots_[i] != 0) {
      if (slots_[i] == key) {
        return false;
      }
      i = (i + 1) & mask_;
    }
    slots_[i] = key;
    ++size_;
    return true;
  }

  void Erase(uint64_t key) {
    if (!Contains(key)) {
      return;
    }
    size_t hole = Home(key);
    while (slots_[hole] != key) {
      hole = (hole + 1) & mask_;
    }
    for (size_t i = (hole + 1) & mask_; slots_[i] != 0; i = (i + 1) & mask_) {
      const size_t home = Home(slots_[i]);
      if (((i - home) & mask_) >= ((i - hole) & mask_)) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole] = 0;
    --size_;
  }

 private:
  // The upper bits of a multiplication by 2^64 / golden ratio (Knuth, 6.4).
  size_t Home(uint64_t key) const { return (key * 0x9e3779b97f4a7c15ULL) >> shift_; }
  void Grow() {
    std::vector<uint64_t> old = std::exchange(slots_, std::vector<uint64_t>(slots_.empty() ? 16 : slots_.size() * 2));
    mask_ = slots_.size() - 1;
    shift_ = 64 - std::countr_zero(slots_.size());
    size_ = 0;
    for (uint64_t key : old) {
      Insert(key);
    }
  }

  std::vector<uint64_t> slots_;  // 0: free; a power of two of them
  size_t mask_ = 0;
  int shift_ = 0;
  size_t size_ = 0;
};

}  // namespace outbox
