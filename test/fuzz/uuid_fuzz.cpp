// UUIDv7 and its clock: readings come back exactly, order of readings is order of ids, text goes both ways.
#include "base/uuid.h"
#include "fuzz.h"

using namespace outbox;

namespace {

constexpr uint64_t kReadings = (uint64_t{1} << 48) * 1000;

void CheckReading(int64_t micros, uint64_t random) {
  const Uuid id = MakeUuid7(micros, random);
  FUZZ_CHECK(id[6] >> 4 == 7 && id[8] >> 6 == 2);
  FUZZ_CHECK(Uuid7Micros(id) == micros);
  uint64_t low = 0;
  for (int i = 8; i < 16; ++i) {
    low = low << 8 | id[i];
  }
  FUZZ_CHECK(((low ^ random) << 2) == 0);
}

void CheckText(const Uuid& id) {
  char text[kUuidTextLength];
  FormatUuid(id, text);
  FUZZ_CHECK(ParseUuid({text, sizeof(text)}) == id);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  const auto micros = static_cast<int64_t>(in.Below(kReadings));
  const auto other = static_cast<int64_t>(in.Below(kReadings));
  const auto random = in.Take<uint64_t>();
  CheckReading(micros, random);
  CheckReading(micros == 0 ? 0 : micros - 1, ~random);
  FUZZ_CHECK(micros == other || (micros < other) == (MakeUuid7(micros, random) < MakeUuid7(other, ~random)));

  // A client's id: whatever 16 bytes. If it reads as one of ours, it is what we would have made.
  const auto id = in.Take<Uuid>();
  CheckText(id);
  if (auto reading = Uuid7Micros(id)) {
    FUZZ_CHECK(*reading >= 0 && static_cast<uint64_t>(*reading) < kReadings);
    uint64_t low = 0;
    for (int i = 8; i < 16; ++i) {
      low = low << 8 | id[i];
    }
    FUZZ_CHECK(MakeUuid7(*reading, low) == id);
  }

  // Any text: what is taken is 36 characters and comes back, but for case.
  std::string text(in.rest());
  if (auto parsed = ParseUuid(text)) {
    char again[kUuidTextLength];
    FormatUuid(*parsed, again);
    FUZZ_CHECK(text.size() == sizeof(again));
    for (size_t i = 0; i < text.size(); ++i) {
      FUZZ_CHECK(again[i] == (text[i] >= 'A' && text[i] <= 'F' ? text[i] + 32 : text[i]));
    }
  }
  return 0;
}
