// A record as a sink sends it, and how records are packed for the trip to the sink process [-].
//
// The same bytes serve in process (unit tests, the log sink) and through the socket pair. Layout of one record, host
// byte order (both ends are the same machine and build):
//
//   u32 size of what follows   i64 timestamp in Unix ms
//   u8 flags (1: has key, 2: has body, 4: has partition, 8: fields only)   u8 form (RecordForm)   u16 number of fields
//   u16 topic length, topic   u32 key length, key   u32 body length, body   with flag 4: i32 partition
//   then per field: u16 name length, name, u32 value length (0xffffffff: null), value
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::sink {

struct Field {
  std::string_view name;
  std::string_view value;  // data() == nullptr: null, which Kafka's headers know; to Redis it is the empty string
};

// How a destination that knows several commands is to take the record. Kafka ignores it.
enum class RecordForm : uint8_t { kStream = 0, kList = 1, kPublish = 2 };

struct Record {
  int64_t timestamp_ms = 0;
  RecordForm form = RecordForm::kStream;
  // Redis: the fields of a stream entry are `fields` alone, to the letter; key and body are not added to them (the key
  // still keeps its order). Kafka ignores it.
  bool fields_only = false;
  int32_t partition = kByKey;  // Kafka's, if >= 0. Redis ignores it
  std::string_view topic;      // Kafka topic; Redis stream, list or channel
  std::string_view key;        // data() == nullptr: none
  std::string_view body;       // data() == nullptr: tombstone
  std::vector<Field> fields;   // Kafka headers; Redis stream fields (besides key and payload, unless fields_only)

  static constexpr int32_t kByKey = -1;
};

// Where it lies: a Field that is made elsewhere and copied is read before its halves are written, which stalls the
// processor for each.
inline void AddField(std::string_view name, std::string_view value, std::vector<Field>* fields) {
  Field& field = fields->emplace_back();
  field.name = name;
  field.value = value;
}

// A batch goes in one frame (protocol.h), and its last record may be of any size.
inline constexpr size_t kMaxRecord = size_t{448} << 20;
// A packed record of nothing: more of them than their bytes have room for there are not.
inline constexpr size_t kMinRecord = 26;

// Appends one packed record. False, and nothing appended, when it is too large: topic or a field's name above 65,535
// bytes, more than 65,535 fields, or kMaxRecord together.
bool PackRecord(const Record& record, std::string* out);

// Walks packed records. Views point into `bytes`. Next() is false at the end and on malformed bytes (ok() tells).
class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}
  bool Next(Record* record);  // reuses record->fields' capacity
  bool ok() const { return ok_; }
  const char* at() const { return at_; }  // where the next record starts

 private:
  const char* at_;
  const char* end_;
  bool ok_ = true;
};

}  // namespace outbox::sink
