// Sorts the locations of a large window's rows by created_at, in bounded memory [-]: runs sorted in memory, written to
// an unlinked temporary file, merged while read. No Postgres in it: a tuplesort's file would die with the transaction.
//
// Add() everything, Finish(), then Next() until false. Throws std::bad_alloc and SpillError. One use per object, which
// ends with an exception: the file could not be written or read, and rows may be missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace outbox {

// Where a row is: 16 bits log table (index into a list that the owner keeps), 32 bits block, 16 bits offset.
struct RowLocation {
  int64_t created_at = 0;
  uint64_t location = 0;
};

class SpillError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class SortedSpill {
 public:
  // `directory` is made if missing; nothing is written before `memory_bytes` are full (at least 64 kB).
  SortedSpill(std::string directory, size_t memory_bytes);
  ~SortedSpill();
  SortedSpill(const SortedSpill&) = delete;
  SortedSpill& operator=(const SortedSpill&) = delete;

  void Add(RowLocation row) {
    if (rows_.size() == rows_.capacity()) {
      MakeRoom();
    }
    rows_.push_back(row);
    count_++;
  }
  void Finish();
  // Returns the smallest row not yet handed out; false at the end.
  bool Next(RowLocation* row);

  // False after an exception of Next().
  bool whole() const { return whole_; }
  uint64_t count() const { return count_; }
  size_t memory_used() const { return rows_.capacity() * sizeof(RowLocation) + buffers_bytes_; }

 private:
  struct Run {
    uint64_t at = 0;   // file offset of what is not yet in the buffer
    uint64_t end = 0;  // file offset
    std::vector<RowLocation> buffer;
    size_t next = 0;
  };
  void MakeRoom();
  void WriteRun();
  bool Refill(Run* run);
  void SiftDown(size_t slot);

  std::string directory_;
  size_t capacity_;
  std::vector<RowLocation> rows_;
  size_t next_ = 0;  // without runs
  uint64_t count_ = 0;
  int fd_ = -1;
  uint64_t file_size_ = 0;
  std::vector<Run> runs_;
  std::vector<uint32_t> heap_;  // runs by their first row, smallest on top
  size_t buffers_bytes_ = 0;
  bool whole_ = true;
};

}  // namespace outbox
