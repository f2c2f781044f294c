#include "sink/record.h"

#include <cstring>
#include <limits>

namespace outbox::sink {
namespace {

constexpr uint8_t kHasKey = 1;
constexpr uint8_t kHasBody = 2;
constexpr uint8_t kHasPartition = 4;
constexpr uint8_t kFieldsOnly = 8;
constexpr uint8_t kAllFlags = kHasKey | kHasBody | kHasPartition | kFieldsOnly;
constexpr uint32_t kNullValue = std::numeric_limits<uint32_t>::max();
constexpr size_t kFixed = sizeof(int64_t) + 2 * sizeof(uint8_t) + 2 * sizeof(uint16_t) + 2 * sizeof(uint32_t);
static_assert(kMinRecord == sizeof(uint32_t) + kFixed);
constexpr size_t kFieldFixed = sizeof(uint16_t) + sizeof(uint32_t);
constexpr size_t kShort = std::numeric_limits<uint16_t>::max();

class Out {
 public:
  explicit Out(char* at) : at_(at) {}
  template <typename Number>
  void Put(Number number) {
    std::memcpy(at_, &number, sizeof(number));
    at_ += sizeof(number);
  }
  template <typename Length>
  void Bytes(std::string_view bytes) {
    Put(static_cast<Length>(bytes.size()));
    if (!bytes.empty()) {
      std::memcpy(at_, bytes.data(), bytes.size());
      at_ += bytes.size();
    }
  }

 private:
  char* at_;
};

class In {
 public:
  In(const char* at, const char* end) : at_(at), end_(end) {}
  template <typename Number>
  bool Get(Number* number) {
    if (left() < sizeof(*number)) {
      return false;
    }
    std::memcpy(number, at_, sizeof(*number));
    at_ += sizeof(*number);
    return true;
  }
  template <typename Length>
  bool Bytes(std::string_view* bytes) {
    Length length = 0;
    if (!Get(&length) || left() < length) {
      return false;
    }
    *bytes = {at_, length};
    at_ += length;
    return true;
  }
  // With a length of 32 bits.
  bool BytesOrNull(std::string_view* bytes) {
    uint32_t length = 0;
    if (!Get(&length) || (length != kNullValue && left() < length)) {
      return false;
    }
    *bytes = length == kNullValue ? std::string_view() : std::string_view(at_, length);
    at_ += bytes->size();
    return true;
  }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  const char* at() const { return at_; }

 private:
  const char* at_;
  const char* end_;
};

}  // namespace

bool PackRecord(const Record& record, std::string* out) {
  if (record.topic.size() > kShort || record.fields.size() > kShort) {
    return false;
  }
  const bool has_partition = record.partition >= 0;
  size_t size = kFixed + record.topic.size() + record.key.size() + record.body.size() +
                (has_partition ? sizeof(record.partition) : 0);
  for (const Field& field : record.fields) {
    if (field.name.size() > kShort) {
      return false;
    }
    size += kFieldFixed + field.name.size() + field.value.size();
  }
  if (size > kMaxRecord) {
    return false;
  }
  size_t start = out->size();
  out->resize(start + sizeof(uint32_t) + size);
  Out to(out->data() + start);
  to.Put(static_cast<uint32_t>(size));
  to.Put(record.timestamp_ms);
  to.Put(static_cast<uint8_t>((record.key.data() != nullptr ? kHasKey : 0) |
                              (record.body.data() != nullptr ? kHasBody : 0) | (has_partition ? kHasPartition : 0) |
                              (record.fields_only ? kFieldsOnly : 0)));
  to.Put(static_cast<uint8_t>(record.form));
  to.Put(static_cast<uint16_t>(record.fields.size()));
  to.Bytes<uint16_t>(record.topic);
  to.Bytes<uint32_t>(record.key);
  to.Bytes<uint32_t>(record.body);
  if (has_partition) {
    to.Put(record.partition);
  }
  for (const Field& field : record.fields) {
    to.Bytes<uint16_t>(field.name);
    if (field.value.data() == nullptr) {
      to.Put(kNullValue);
    } else {
      to.Bytes<uint32_t>(field.value);
    }
  }
  return true;
}

bool RecordReader::Next(Record* record) {
  if (!ok_ || at_ == end_) {
    return false;
  }
  ok_ = false;  // until the whole record has been read
  uint32_t size = 0;
  In outer(at_, end_);
  if (!outer.Get(&size) || outer.left() < size) {
    return false;
  }
  In in(outer.at(), outer.at() + size);
  uint8_t flags = 0;
  uint8_t form = 0;
  uint16_t fields = 0;
  if (!in.Get(&record->timestamp_ms) || !in.Get(&flags) || !in.Get(&form) || !in.Get(&fields) ||
      form > static_cast<uint8_t>(RecordForm::kPublish) || (flags & ~kAllFlags) != 0 ||
      !in.Bytes<uint16_t>(&record->topic) || !in.Bytes<uint32_t>(&record->key) || !in.Bytes<uint32_t>(&record->body)) {
    return false;
  }
  record->form = static_cast<RecordForm>(form);
  if ((flags & kHasKey) == 0) {
    record->key = {};
  }
  if ((flags & kHasBody) == 0) {
    record->body = {};
  }
  record->fields_only = (flags & kFieldsOnly) != 0;
  record->partition = Record::kByKey;
  if ((flags & kHasPartition) != 0 && (!in.Get(&record->partition) || record->partition < 0)) {
    return false;
  }
  record->fields.resize(fields);
  for (Field& field : record->fields) {
    if (!in.Bytes<uint16_t>(&field.name) || !in.BytesOrNull(&field.value)) {
      return false;
    }
  }
  if (in.left() != 0) {
    return false;
  }
  at_ = in.at();
  ok_ = true;
  return true;
}

}  // namespace outbox::sink
