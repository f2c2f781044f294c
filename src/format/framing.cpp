#include "format/framing.h"

#include <charconv>
#include <cstdint>
#include <string>

namespace outbox::format {

namespace {

// Source: Confluent, "Wire format" of the Schema Registry.
class ConfluentFraming final : public Encoder {
 public:
  explicit ConfluentFraming(std::unique_ptr<Encoder> encoder) : encoder_(std::move(encoder)) {}

  bool Encode(const Event& event, sink::Record* record, Error* error) override {
    if (IsNull(record->body)) {
      return encoder_->Encode(event, record, error);  // a tombstone stays one
    }
    std::string_view text;
    event.headers.ForEach(
        [&](std::string_view name, std::string_view value) { text = name == "schema_id" ? value : text; });
    uint32_t id = 0;
    const char* end = text.data() + text.size();
    const auto [stopped, problem] = std::from_chars(text.data(), end, id);
    if (text.empty() || problem != std::errc() || stopped != end || id > INT32_MAX) {
      *error = {ErrorClass::kMessage, "NO_SCHEMA_ID",
                IsNull(text) ? "the event has no header schema_id, which the framing of the route needs"
                             : "the event's header schema_id is no number from 0 to 2147483647"};
      return false;
    }
    framed_.assign(1, '\0');
    for (const int shift : {24, 16, 8, 0}) {
      framed_.push_back(static_cast<char>(id >> shift));
    }
    framed_.append(record->body);
    record->body = framed_;
    return encoder_->Encode(event, record, error);
  }

 private:
  const std::unique_ptr<Encoder> encoder_;
  std::string framed_;
};

}  // namespace

std::unique_ptr<Encoder> WithFraming(const Use& use, std::unique_ptr<Encoder> encoder) {
  if (IsNull(use.Option(kFramingOption.name))) {
    return encoder;
  }
  return std::make_unique<ConfluentFraming>(std::move(encoder));
}

}  // namespace outbox::format
