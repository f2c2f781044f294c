// The bodies of protocol.h's frames.
#include <cstring>
#include <utility>

#include "base/utf8.h"
#include "sink/checkup.h"
#include "sink/places.h"
#include "sink/protocol.h"
#include "sink/record.h"

namespace outbox::sink {
namespace {

constexpr size_t kLongestCode = 63;
constexpr size_t kLongestMessage = 2000;
constexpr uint32_t kMostRows = 64;  // of a checkup
// A result's outcome on the way: kAborted of records that were certainly not written.
constexpr uint8_t kUnsent = static_cast<uint8_t>(Outcome::kAborted) + 1;

template <typename Number>
void Put(Number number, std::string* out) {
  out->append(reinterpret_cast<const char*>(&number), sizeof(number));
}
void PutText(std::string_view text, std::string* out) {
  Put(static_cast<uint32_t>(text.size()), out);
  out->append(text);
}

// Takes values off the front of a body; false when it is too short.
class Body {
 public:
  explicit Body(std::string_view bytes) : bytes_(bytes) {}
  template <typename Number>
  bool Get(Number* number) {
    if (bytes_.size() < sizeof(*number)) {
      return false;
    }
    std::memcpy(number, bytes_.data(), sizeof(*number));
    bytes_.remove_prefix(sizeof(*number));
    return true;
  }
  bool GetText(std::string* text) {
    uint32_t size = 0;
    if (!Get(&size) || bytes_.size() < size) {
      return false;
    }
    text->assign(bytes_.data(), size);
    bytes_.remove_prefix(size);
    return true;
  }
  std::string_view rest() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

// The worker stores and shows these: text from a broker, or from a corrupted process, must not make its own SQL fail.
bool GetError(Body* body, Error* error) {
  uint8_t error_class = 0;
  if (!body->Get(&error_class) || error_class > static_cast<uint8_t>(ErrorClass::kInternal) ||
      !body->GetText(&error->code) || !body->GetText(&error->message)) {
    return false;
  }
  error->code = PrintableUtf8(error->code, kLongestCode);
  error->message = PrintableUtf8(error->message, kLongestMessage);
  error->error_class = static_cast<ErrorClass>(error_class);
  return true;
}
void PutError(const Error& error, std::string* out) {
  Put(static_cast<uint8_t>(error.error_class), out);
  PutText(error.code, out);
  PutText(error.message, out);
}

}  // namespace

std::string EncodeConfigure(const SinkConfig& config) {
  std::string out;
  Put(kProtocolVersion, &out);
  Put(config.max_message_bytes, &out);
  Put(config.max_inflight_bytes, &out);
  Put(config.alive_ms, &out);
  Put(static_cast<uint8_t>(config.checks_server), &out);
  PutText(config.name, &out);
  PutText(config.data_directory, &out);
  Put(static_cast<uint32_t>(config.options.size()), &out);
  for (const auto& [name, value] : config.options) {
    PutText(name, &out);
    PutText(value, &out);
  }
  return out;
}

uint32_t ConfiguredVersion(std::string_view bytes) {
  Body body(bytes);
  uint32_t version = 0;
  return body.Get(&version) ? version : 0;
}

bool DecodeConfigure(std::string_view bytes, SinkConfig* config) {
  Body body(bytes);
  uint32_t version = 0;
  uint32_t count = 0;
  uint8_t checks_server = 0;
  if (!body.Get(&version) || version != kProtocolVersion || !body.Get(&config->max_message_bytes) ||
      !body.Get(&config->max_inflight_bytes) || !body.Get(&config->alive_ms) || config->alive_ms == 0 ||
      !body.Get(&checks_server) || checks_server > 1 || !body.GetText(&config->name) ||
      !body.GetText(&config->data_directory) || !body.Get(&count)) {
    return false;
  }
  config->checks_server = checks_server != 0;
  config->options.clear();
  for (uint32_t i = 0; i < count; ++i) {
    std::string name;
    std::string value;
    if (!body.GetText(&name) || !body.GetText(&value)) {
      return false;
    }
    config->options[std::move(name)] = std::move(value);
  }
  return body.empty();
}

std::string EncodeSubmitHead(const Batch& batch) {
  std::string out;
  Put(batch.flow, &out);
  Put(batch.epoch, &out);
  Put(batch.first_seq, &out);
  Put(batch.count, &out);
  return out;
}

bool DecodeSubmit(std::string_view bytes, Batch* batch) {
  Body body(bytes);
  if (!body.Get(&batch->flow) || !body.Get(&batch->epoch) || !body.Get(&batch->first_seq) || !body.Get(&batch->count) ||
      batch->count > body.rest().size() / kMinRecord) {
    return false;
  }
  batch->records.assign(body.rest());
  return true;
}

std::string EncodeResults(const std::vector<Place>& places, const std::vector<Result>& results) {
  std::string out;
  Put(static_cast<uint32_t>(places.size()), &out);
  for (const Place& place : places) {
    Put(place.flow, &out);
    Put(place.partition, &out);
    PutText(place.topic, &out);
    PutText(place.first, &out);
    PutText(place.last, &out);
  }
  Put(static_cast<uint32_t>(results.size()), &out);
  for (const Result& result : results) {
    Put(result.flow, &out);
    Put(result.first_seq, &out);
    Put(result.count, &out);
    Put(result.unsent ? kUnsent : static_cast<uint8_t>(result.outcome), &out);
    PutError(result.error, &out);
  }
  return out;
}

void EncodeAnswers(const std::vector<Place>& places, const std::vector<Result>& results,
                   const std::function<void(std::string)>& send) {
  std::vector<Place> some_places;
  std::vector<Result> some;
  size_t bytes = 0;
  auto flush = [&] {
    send(EncodeResults(some_places, some));
    some_places.clear();
    some.clear();
    bytes = 0;
  };
  for (const Place& place : places) {
    some_places.push_back(place);
    bytes += place.topic.size() + place.first.size() + place.last.size() + 20;
    if (bytes >= kUsualAnswer) {
      flush();
    }
  }
  for (const Result& result : results) {
    some.push_back(result);
    bytes += result.error.code.size() + result.error.message.size() + 26;
    if (bytes >= kUsualAnswer) {
      flush();
    }
  }
  if (!some_places.empty() || !some.empty()) {
    flush();
  }
}

bool ResultsReader::Take(int part) {
  while (good_ && begun_ < part && left_ == 0) {
    Body body(body_);
    good_ = body.Get(&left_);
    body_ = body.rest();
    ++begun_;
  }
  if (!good_ || begun_ != part || left_ == 0) {
    return false;
  }
  --left_;
  return true;
}

bool ResultsReader::Next(Place* place) {
  if (!Take(1)) {
    return false;
  }
  Body body(body_);
  good_ = body.Get(&place->flow) && body.Get(&place->partition) && body.GetText(&place->topic) &&
          body.GetText(&place->first) && body.GetText(&place->last);
  body_ = body.rest();
  // Stored by the worker, too; the ids come from the Redis itself.
  place->topic = WellFormedUtf8(place->topic, kLongestMessage);
  place->first = PrintableUtf8(place->first, kLongestCode);
  place->last = PrintableUtf8(place->last, kLongestCode);
  return good_;
}

bool ResultsReader::Next(Result* result) {
  if (!Take(2)) {
    return false;
  }
  Body body(body_);
  uint8_t outcome = 0;
  good_ = body.Get(&result->flow) && body.Get(&result->first_seq) && body.Get(&result->count) && body.Get(&outcome) &&
          outcome >= static_cast<uint8_t>(Outcome::kDelivered) && outcome <= kUnsent && GetError(&body, &result->error);
  body_ = body.rest();
  result->unsent = outcome == kUnsent;
  result->outcome = result->unsent ? Outcome::kAborted : static_cast<Outcome>(outcome);
  return good_;
}

bool DecodeResults(std::string_view bytes, std::vector<Place>* places, std::vector<Result>* results) {
  ResultsReader reader(bytes);
  for (Place place; reader.Next(&place);) {
    places->push_back(std::move(place));
  }
  for (Result result; reader.Next(&result);) {
    results->push_back(std::move(result));
  }
  return reader.whole();
}

std::string EncodeHealth(const Health& health) {
  std::string out;
  Put(static_cast<uint8_t>(health.up), &out);
  PutError(health.error, &out);
  PutError(health.warning, &out);
  Put(static_cast<uint8_t>(health.sending), &out);
  PutText(health.cluster, &out);
  return out;
}

bool DecodeHealth(std::string_view bytes, Health* health) {
  Body body(bytes);
  uint8_t up = 0;
  Error error;
  Error warning;
  uint8_t sending = 0;
  std::string cluster;
  if (!body.Get(&up) || up > 1 || !GetError(&body, &error) || !GetError(&body, &warning) || !body.Get(&sending) ||
      sending > 1 || !body.GetText(&cluster) || !body.empty()) {
    return false;
  }
  health->up = up != 0;
  health->error = std::move(error);
  health->warning = std::move(warning);
  health->sending = sending != 0;
  health->cluster = PrintableUtf8(cluster, kLongestCode);
  return true;
}

std::string EncodeIdentity(const std::string& server_run) {
  std::string out;
  PutText(server_run, &out);
  return out;
}

bool DecodeIdentity(std::string_view bytes, std::string* server_run) {
  Body body(bytes);
  if (!body.GetText(server_run) || !body.empty()) {
    return false;
  }
  *server_run = PrintableUtf8(*server_run, kLongestCode);
  return true;
}

std::string EncodeAsk(const std::vector<AskedStream>& streams) {
  std::string out;
  Put(static_cast<uint32_t>(streams.size()), &out);
  for (const AskedStream& asked : streams) {
    PutText(asked.stream, &out);
    PutText(asked.acknowledged, &out);
  }
  return out;
}

bool DecodeAsk(std::string_view bytes, std::vector<AskedStream>* streams) {
  Body body(bytes);
  uint32_t count = 0;
  if (!body.Get(&count)) {
    return false;
  }
  streams->clear();
  for (uint32_t i = 0; i < count; ++i) {
    AskedStream& asked = streams->emplace_back();
    if (!body.GetText(&asked.stream) || !body.GetText(&asked.acknowledged)) {
      return false;
    }
  }
  return body.empty();
}

std::string EncodeEnds(const std::vector<StreamEnd>& ends) {
  std::string out;
  Put(static_cast<uint32_t>(ends.size()), &out);
  for (const StreamEnd& end : ends) {
    PutText(end.stream, &out);
    PutText(end.acknowledged, &out);
    PutText(end.last, &out);
    PutText(end.kept, &out);
    Put(static_cast<uint8_t>(end.lacking), &out);
    Put(static_cast<uint8_t>(end.lost), &out);
  }
  return out;
}

bool DecodeEnds(std::string_view bytes, std::vector<StreamEnd>* ends, size_t most) {
  Body body(bytes);
  uint32_t count = 0;
  if (!body.Get(&count) || count > most) {
    return false;
  }
  ends->clear();
  for (uint32_t i = 0; i < count; ++i) {
    StreamEnd& end = ends->emplace_back();
    uint8_t lacking = 0;
    uint8_t lost = 0;
    if (!body.GetText(&end.stream) || !body.GetText(&end.acknowledged) || !body.GetText(&end.last) ||
        !body.GetText(&end.kept) || !body.Get(&lacking) || lacking > 1 || !body.Get(&lost) || lost > 1 ||
        !IsStreamIdOrNone(end.last) || !IsStreamIdOrNone(end.kept)) {
      return false;
    }
    end.stream = WellFormedUtf8(end.stream, kLongestMessage);
    end.acknowledged = PrintableUtf8(end.acknowledged, kLongestCode);
    end.lacking = lacking != 0;
    end.lost = lost != 0;
  }
  return body.empty();
}

std::string EncodeAdmit(const std::string& server_run, bool drop) {
  std::string out;
  PutText(server_run, &out);
  Put(static_cast<uint8_t>(drop), &out);
  return out;
}

bool DecodeAdmit(std::string_view bytes, std::string* server_run, bool* drop) {
  Body body(bytes);
  uint8_t flag = 0;
  if (!body.GetText(server_run) || !body.Get(&flag) || flag > 1) {
    return false;
  }
  *drop = flag != 0;
  return body.empty();
}

std::string EncodeCheckup(const CheckupRequest& request) {
  std::string out;
  PutText(EncodeConfigure(request.config), &out);
  PutText(request.topic, &out);
  Put(static_cast<uint8_t>(request.form), &out);
  Put(request.timeout_ms, &out);
  return out;
}

bool DecodeCheckup(std::string_view bytes, CheckupRequest* request) {
  Body body(bytes);
  std::string config;
  uint8_t form = 0;
  if (!body.GetText(&config) || !DecodeConfigure(config, &request->config) || !body.GetText(&request->topic) ||
      !body.Get(&form) || form > static_cast<uint8_t>(RecordForm::kPublish) || !body.Get(&request->timeout_ms)) {
    return false;
  }
  request->form = static_cast<RecordForm>(form);
  return body.empty();
}

std::string EncodeCheckupRows(const std::vector<CheckupRow>& rows) {
  std::string out;
  Put(static_cast<uint32_t>(rows.size()), &out);
  for (const CheckupRow& row : rows) {
    PutText(row.check, &out);
    PutError(row.error, &out);
    PutText(row.detail, &out);
    PutText(row.hint, &out);
  }
  return out;
}

bool DecodeCheckupRows(std::string_view bytes, std::vector<CheckupRow>* rows) {
  Body body(bytes);
  uint32_t count = 0;
  if (!body.Get(&count) || count > kMostRows) {
    return false;
  }
  for (uint32_t i = 0; i < count; ++i) {
    CheckupRow& row = rows->emplace_back();
    if (!body.GetText(&row.check) || !GetError(&body, &row.error) || !body.GetText(&row.detail) ||
        !body.GetText(&row.hint)) {
      return false;
    }
    row.check = PrintableUtf8(row.check, kLongestCode);
    row.detail = PrintableUtf8(row.detail, kLongestMessage);
    row.hint = PrintableUtf8(row.hint, kLongestMessage);
  }
  return body.empty();
}

void AppendResult(Result result, std::vector<Result>* results) {
  if (!results->empty() && result.outcome != Outcome::kFailed) {
    Result& last = results->back();
    if (last.flow == result.flow && last.outcome == result.outcome && last.unsent == result.unsent &&
        last.first_seq + last.count == result.first_seq) {
      last.count += result.count;
      return;
    }
  }
  results->push_back(std::move(result));
}

}  // namespace outbox::sink
