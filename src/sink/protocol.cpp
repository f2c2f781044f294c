#include "sink/protocol.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace outbox::sink {
namespace {

constexpr size_t kJoin = size_t{16} << 10;       // smaller bodies are copied behind the frame before
constexpr size_t kKeepBuffer = size_t{4} << 20;  // a larger read buffer is let go when it is empty
constexpr int kMaxPieces = 32;

}  // namespace

void FrameReader::MakeRoom() {
  Done();
  if (capacity_ - end_ >= kIoSize) {
    return;
  }
  size_t used = end_ - begin_;
  size_t wanted = capacity_;
  while (wanted - used < kIoSize) {
    wanted = wanted == 0 ? 2 * kIoSize : 2 * wanted;  // grows with what came, not with what a header claims
  }
  if (wanted == capacity_) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, used);
  } else {
    auto grown = std::make_unique_for_overwrite<char[]>(wanted);
    if (used != 0) {
      std::memcpy(grown.get(), buffer_.get() + begin_, used);
    }
    buffer_ = std::move(grown);
    capacity_ = wanted;
  }
  begin_ = 0;
  end_ = used;
}

IoState FrameReader::Fill(int fd, bool* got) {
  *got = false;
  if (state_ != IoState::kOk) {
    return state_;
  }
  MakeRoom();
  const size_t room = capacity_ - end_;
  ssize_t size;
  do {
    size = recv(fd, buffer_.get() + end_, room, MSG_DONTWAIT);
  } while (size < 0 && errno == EINTR);
  drained_ = size < static_cast<ssize_t>(room);
  if (size > 0) {
    end_ += static_cast<size_t>(size);
    *got = true;
  } else if (size == 0 || errno == ECONNRESET) {
    state_ = IoState::kEnded;
  } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
    state_ = IoState::kBroken;
  }
  return state_;
}

void FrameReader::Done() {
  if (begin_ != end_) {
    return;
  }
  begin_ = end_ = 0;
  if (capacity_ > kKeepBuffer) {
    buffer_.reset();
    capacity_ = 0;
  }
}

bool FrameReader::Next(Frame* frame) {
  Done();
  if (state_ == IoState::kBroken || buffered() < kFrameHeader) {
    return false;
  }
  const char* at = buffer_.get() + begin_;
  uint32_t size = 0;
  uint32_t type = 0;
  std::memcpy(&size, at, sizeof(size));
  std::memcpy(&type, at + sizeof(size), sizeof(type));
  uint8_t kind = static_cast<uint8_t>(at[sizeof(size)]);
  if (size > max_frame_ || at[5] != 0 || at[6] != 0 || at[7] != 0 ||
      kind < static_cast<uint8_t>(FrameType::kConfigure) || kind > static_cast<uint8_t>(FrameType::kCheckupRows)) {
    errno = EPROTO;
    state_ = IoState::kBroken;
    return false;
  }
  if (buffered() < kFrameHeader + size) {
    return false;
  }
  frame->type = static_cast<FrameType>(kind);
  frame->body = {at + kFrameHeader, size};
  begin_ += kFrameHeader + size;
  return true;
}

void FrameWriter::Append(FrameType type, std::string_view head, std::string body) {
  auto size = static_cast<uint32_t>(head.size() + body.size());
  char header[kFrameHeader] = {};
  std::memcpy(header, &size, sizeof(size));
  header[sizeof(size)] = static_cast<char>(type);
  if (queue_.empty() || queue_.back().size() >= kIoSize) {
    queue_.emplace_back();
  }
  queue_.back().append(header, sizeof(header)).append(head);
  pending_ += sizeof(header) + size;
  if (body.size() < kJoin) {
    queue_.back().append(body);
  } else {
    queue_.push_back(std::move(body));
  }
}

void FrameWriter::Clear() {
  queue_.clear();
  offset_ = 0;
  pending_ = 0;
}

void FrameWriter::Take(FrameWriter other) {
  for (std::string& chunk : other.queue_) {
    queue_.push_back(std::move(chunk));
  }
  pending_ += other.pending_;
}

IoState FrameWriter::Flush(int fd) {
  while (pending_ != 0) {
    iovec pieces[kMaxPieces];
    msghdr message{};
    message.msg_iov = pieces;
    size_t total = 0;
    for (size_t i = 0; i < queue_.size() && message.msg_iovlen < kMaxPieces && total < kIoSize; ++i) {
      size_t skip = i == 0 ? offset_ : 0;
      size_t length = std::min(queue_[i].size() - skip, kIoSize - total);
      pieces[message.msg_iovlen++] = {queue_[i].data() + skip, length};
      total += length;
    }
    ssize_t written = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return IoState::kOk;
      }
      return errno == EPIPE || errno == ECONNRESET ? IoState::kEnded : IoState::kBroken;
    }
    pending_ -= static_cast<size_t>(written);
    offset_ += static_cast<size_t>(written);
    while (!queue_.empty() && offset_ >= queue_.front().size()) {
      offset_ -= queue_.front().size();
      queue_.pop_front();
    }
  }
  return IoState::kOk;
}

}  // namespace outbox::sink
