// `payload`: value and key, nothing else.
#include "format/format.h"
#include "format/framing.h"

namespace outbox::format {

namespace {

class PayloadEncoder final : public Encoder {
 public:
  bool Encode(const Event&, sink::Record* record, Error*) override {
    // A stream entry has one field at least: a tombstone without a key is an empty payload there.
    if (record->form == sink::RecordForm::kStream && needs_field_ && IsNull(record->key) && IsNull(record->body)) {
      record->body = "";
    }
    return true;
  }
  explicit PayloadEncoder(bool needs_field) : needs_field_(needs_field) {}

 private:
  const bool needs_field_;
};

constexpr sink::RouteOption kOptions[] = {kFramingOption};

}  // namespace

extern const Format kPayloadFormat;
constinit const Format kPayloadFormat = {
    .name = "payload",
    .options = kOptions,
    .make = [](const Use& use) { return WithFraming(use, std::make_unique<PayloadEncoder>(use.kind->needs_field)); },
};

}  // namespace outbox::format
