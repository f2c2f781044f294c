// Packed records: whatever bytes come, the reader stays inside them; what is packed is read back, NULL and all.
#include <list>

#include "fuzz.h"
#include "sink/record.h"

using namespace outbox;
using sink::Record;

namespace {

bool Inside(std::string_view part, std::string_view whole) {
  return part.data() == nullptr ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

bool Same(std::string_view a, std::string_view b) {
  return a == b && (a.data() == nullptr) == (b.data() == nullptr);
}

void CheckEqual(const Record& a, const Record& b) {
  FUZZ_CHECK(a.timestamp_ms == b.timestamp_ms && a.form == b.form && a.topic == b.topic);
  FUZZ_CHECK(Same(a.key, b.key) && Same(a.body, b.body));
  FUZZ_CHECK(a.partition == b.partition && a.fields_only == b.fields_only);
  FUZZ_CHECK(a.fields.size() == b.fields.size());
  for (size_t i = 0; i < a.fields.size(); ++i) {
    FUZZ_CHECK(a.fields[i].name == b.fields[i].name && Same(a.fields[i].value, b.fields[i].value));
  }
}

void CheckForeignBytes(std::string_view bytes) {
  sink::RecordReader reader(bytes);
  Record record;
  const char* before = reader.at();
  while (reader.Next(&record)) {
    FUZZ_CHECK(reader.at() > before && reader.at() <= bytes.data() + bytes.size());
    before = reader.at();
    FUZZ_CHECK(Inside(record.topic, bytes) && Inside(record.key, bytes) && Inside(record.body, bytes));
    for (const sink::Field& field : record.fields) {
      FUZZ_CHECK(Inside(field.name, bytes) && Inside(field.value, bytes));
    }
    std::string packed;
    FUZZ_CHECK(PackRecord(record, &packed));
    sink::RecordReader again(packed);
    Record copy;
    FUZZ_CHECK(again.Next(&copy));
    CheckEqual(record, copy);
  }
  FUZZ_CHECK(reader.at() == before);
  FUZZ_CHECK(!reader.ok() || before == bytes.data() + bytes.size());
  FUZZ_CHECK(!reader.Next(&record));
}

// Texts with room of their own, so that a read past one of them is seen.
class Texts {
 public:
  std::string_view Keep(std::string_view text) { return texts_.emplace_back(text); }
  std::string_view KeepOrNull(fuzz::Input* in) { return in->Flag() ? Keep(in->Text()) : std::string_view(); }

 private:
  std::list<std::string> texts_;
};

Record MakeRecord(fuzz::Input* in, Texts* texts) {
  Record record;
  record.timestamp_ms = in->Take<int64_t>();
  record.form = static_cast<sink::RecordForm>(in->Below(3));
  record.topic = texts->Keep(in->Text());
  record.key = texts->KeepOrNull(in);
  record.body = texts->KeepOrNull(in);
  for (uint64_t i = in->Below(8); i > 0; --i) {
    std::string_view name = texts->Keep(in->Text());
    record.fields.push_back({name, texts->Keep(in->Text())});
  }
  record.fields_only = in->Flag();
  if (in->Flag()) {
    record.partition = static_cast<int32_t>(in->Below(uint64_t{1} << 31));
  }
  if (in->Flag() && !record.fields.empty()) {
    record.fields.back().value = {};
  }
  return record;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  CheckForeignBytes({reinterpret_cast<const char*>(data), size});

  fuzz::Input in(data, size);
  Texts texts;
  std::vector<Record> records;
  std::string packed;
  for (uint64_t i = in.Below(4); i > 0; --i) {
    records.push_back(MakeRecord(&in, &texts));
    FUZZ_CHECK(PackRecord(records.back(), &packed));
  }
  const uint64_t cut = packed.empty() ? 0 : in.Below(packed.size());
  sink::RecordReader reader(packed);
  Record record;
  for (const Record& expected : records) {
    FUZZ_CHECK(reader.Next(&record));
    CheckEqual(expected, record);
  }
  FUZZ_CHECK(!reader.Next(&record) && reader.ok());

  // Cut anywhere: whole records only, and the rest is called malformed.
  const std::string part = packed.substr(0, cut);
  sink::RecordReader shorter(part);
  size_t whole = 0;
  while (shorter.Next(&record)) {
    CheckEqual(records[whole++], record);
  }
  FUZZ_CHECK(shorter.ok() == (shorter.at() == part.data() + part.size()));
  return 0;
}
