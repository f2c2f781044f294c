#include "base/sorted_spill.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace outbox {

namespace {

// Enough to make a read worth its call; with very many runs smaller, so that all buffers stay within the memory.
constexpr size_t kRunBufferRows = 4096;
constexpr size_t kMinRunBufferRows = 64;

bool Earlier(const RowLocation& a, const RowLocation& b) {
  return a.created_at < b.created_at;
}

void Sort(std::vector<RowLocation>* rows) {
  if (!std::is_sorted(rows->begin(), rows->end(), Earlier)) {
    std::sort(rows->begin(), rows->end(), Earlier);
  }
}

[[noreturn]] void Fail(const char* what) {
  throw SpillError(std::string("could not ") + what + " a temporary file to sort a window: " + std::strerror(errno));
}

}  // namespace

SortedSpill::SortedSpill(std::string directory, size_t memory_bytes)
    : directory_(std::move(directory)), capacity_(std::max<size_t>(memory_bytes, 64 * 1024) / sizeof(RowLocation)) {}

SortedSpill::~SortedSpill() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

void SortedSpill::MakeRoom() {
  if (rows_.size() == capacity_) {
    WriteRun();
  } else {
    rows_.reserve(std::min(capacity_, std::max<size_t>(64, 2 * rows_.size())));  // never above the capacity
  }
}

void SortedSpill::WriteRun() {
  if (fd_ < 0) {
    mkdir(directory_.c_str(), 0700);  // if it fails, open says why
    // The prefix is the server's own, so that a crash between open and unlink leaves nothing for long.
    std::string path = directory_ + "/pgsql_tmp" + std::to_string(getpid()) + ".outbox";
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd_ < 0 && errno == EEXIST) {
      unlink(path.c_str());  // of a process that died and had this pid
      fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    if (fd_ < 0) {
      Fail("create");
    }
    unlink(path.c_str());
  }
  Sort(&rows_);
  const char* data = reinterpret_cast<const char*>(rows_.data());
  size_t left = rows_.size() * sizeof(RowLocation);
  Run run;
  run.at = file_size_;
  while (left > 0) {
    ssize_t written = pwrite(fd_, data, left, static_cast<off_t>(file_size_));
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      Fail("write to");
    }
    data += written;
    left -= static_cast<size_t>(written);
    file_size_ += static_cast<uint64_t>(written);
  }
  run.end = file_size_;
  runs_.push_back(std::move(run));
  rows_.clear();
}

void SortedSpill::Finish() {
  if (runs_.empty()) {
    Sort(&rows_);
    return;
  }
  if (!rows_.empty()) {
    WriteRun();
  }
  std::vector<RowLocation>().swap(rows_);
  size_t rows = std::clamp(capacity_ / runs_.size(), kMinRunBufferRows, kRunBufferRows);
  for (Run& run : runs_) {
    run.buffer.reserve(rows);
    buffers_bytes_ += rows * sizeof(RowLocation);
    Refill(&run);
  }
  for (uint32_t i = 0; i < runs_.size(); i++) {
    heap_.push_back(i);
  }
  for (size_t slot = heap_.size() / 2; slot-- > 0;) {
    SiftDown(slot);
  }
}

bool SortedSpill::Refill(Run* run) {
  size_t rows = std::min<uint64_t>(run->buffer.capacity(), (run->end - run->at) / sizeof(RowLocation));
  run->buffer.resize(rows);
  run->next = 0;
  char* data = reinterpret_cast<char*>(run->buffer.data());
  size_t left = rows * sizeof(RowLocation);
  while (left > 0) {
    ssize_t got = pread(fd_, data, left, static_cast<off_t>(run->at));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      whole_ = false;
      errno = got == 0 ? EIO : errno;  // 0: the file is shorter than what was written
      Fail("read");
    }
    data += got;
    left -= static_cast<size_t>(got);
    run->at += static_cast<uint64_t>(got);
  }
  return rows > 0;
}

void SortedSpill::SiftDown(size_t slot) {
  auto first = [this](size_t at) -> const RowLocation& {
    const Run& run = runs_[heap_[at]];
    return run.buffer[run.next];
  };
  for (;;) {
    size_t child = 2 * slot + 1;
    if (child >= heap_.size()) {
      return;
    }
    if (child + 1 < heap_.size() && Earlier(first(child + 1), first(child))) {
      child++;
    }
    if (!Earlier(first(child), first(slot))) {
      return;
    }
    std::swap(heap_[slot], heap_[child]);
    slot = child;
  }
}

bool SortedSpill::Next(RowLocation* row) {
  if (runs_.empty()) {
    if (next_ == rows_.size()) {
      return false;
    }
    *row = rows_[next_++];
    return true;
  }
  if (heap_.empty()) {
    return false;
  }
  Run& run = runs_[heap_[0]];
  *row = run.buffer[run.next++];
  if (run.next == run.buffer.size() && !Refill(&run)) {
    heap_[0] = heap_.back();
    heap_.pop_back();
  }
  SiftDown(0);
  return true;
}

}  // namespace outbox
