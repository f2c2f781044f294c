// `cloudevents` and `cloudevents-json`: CloudEvents 1.0, its Kafka binding in binary and in structured mode. Redis has
// no binding: a stream entry has the same names, and the payload as `data`; the structured event is `event`.
//
//   attributes   specversion, id, source, type, time; subject (the key's aggregate_id), datacontenttype, dataschema
//   extensions   aggregatetype, partitionkey, sequence, schemaversion, and the user's headers whose names can be
//                attributes; traceparent and tracestate among them
//
// What cannot be an attribute stays a header of the record; so do traceparent, tracestate and baggage, whose place that
// is.
//
// Source: CloudEvents 1.0.2: spec.md, json-format.md, kafka-protocol-binding.md, partitioning, sequence and distributed
// tracing extensions.
#include <algorithm>
#include <chrono>

#include "base/letter_case.h"
#include "base/media_type.h"
#include "base/uri.h"
#include "base/utf8.h"
#include "format/format.h"
#include "format/framing.h"
#include "format/json_writer.h"

namespace outbox::format {

namespace {

constexpr std::string_view kSpecVersion = "1.0";
constexpr std::string_view kJson = "application/json";
constexpr std::string_view kStructured = "application/cloudevents+json; charset=UTF-8";
constexpr std::string_view kPrefix = "ce_";
constexpr size_t kLongestName = 20;

// Attributes that are made of the event itself.
constexpr std::string_view kOwn[] = {
    "specversion", "id",   "source",        "type",     "time",         "subject",      "datacontenttype",
    "dataschema",  "data", "aggregatetype", "sequence", "partitionkey", "schemaversion"};

bool IsName(std::string_view name) {
  if (name.empty() || name.size() > kLongestName) {
    return false;
  }
  for (const char c : name) {
    if ((c < 'a' || c > 'z') && (c < '0' || c > '9')) {
      return false;
    }
  }
  return true;
}

bool IsOwn(std::string_view name) {
  for (const std::string_view own : kOwn) {
    if (name == own) {
      return true;
    }
  }
  return false;
}

// Headers of trace contexts: read by those who trace, whether or not they know CloudEvents.
bool IsTrace(std::string_view name) {
  return name == "traceparent" || name == "tracestate" || name == "baggage";
}

// Writes `number` with so many digits.
char* PutDigits(int64_t number, int digits, char* at) {
  for (int i = digits - 1; i >= 0; --i, number /= 10) {
    at[i] = static_cast<char>('0' + number % 10);
  }
  return at + digits;
}

// RFC 3339, UTC.
std::string_view PutTime(int64_t micros, char (&text)[32]) {
  namespace chrono = std::chrono;
  const chrono::sys_time<chrono::microseconds> time{chrono::microseconds{micros}};
  const auto midnight = chrono::floor<chrono::days>(time);
  const chrono::year_month_day date{midnight};
  const chrono::hh_mm_ss clock{time - midnight};
  char* at = PutDigits(static_cast<int>(date.year()), 4, text);
  *at++ = '-';
  at = PutDigits(static_cast<unsigned>(date.month()), 2, at);
  *at++ = '-';
  at = PutDigits(static_cast<unsigned>(date.day()), 2, at);
  *at++ = 'T';
  at = PutDigits(clock.hours().count(), 2, at);
  *at++ = ':';
  at = PutDigits(clock.minutes().count(), 2, at);
  *at++ = ':';
  at = PutDigits(clock.seconds().count(), 2, at);
  *at++ = '.';
  at = PutDigits(clock.subseconds().count(), 6, at);
  *at++ = 'Z';
  return {text, static_cast<size_t>(at - text)};
}

// Whether an attribute can have it: Unicode without control characters and noncharacters. A database in SQL_ASCII has
// other bytes as well.
bool IsValue(std::string_view text) {
  return IsUtf8(text) && !HoldsControl(text) && !HoldsNoncharacter(text);
}

bool Refuse(const char* code, std::string message, Error* error) {
  *error = {ErrorClass::kMessage, code, std::move(message)};
  return false;
}

// What both modes have in common: which attributes an event has. Each calls Attribute(name, value) of its own for them,
// and Header(name, value) for what is none.
template <typename Mode>
class CloudEventsEncoder : public Encoder {
 public:
  explicit CloudEventsEncoder(const Use& use)
      : source_(IsNull(use.Option("source")) ? use.source : use.Option("source")),
        header_prefix_(use.kind->header_prefix),
        flat_(use.kind->needs_field && use.form == sink::RecordForm::kStream) {}

 protected:
  bool Attributes(const Event& event, const sink::Record& record, Error* error) {
    if (event.event_type.empty() || !IsValue(event.event_type)) {
      return Refuse("NO_CLOUDEVENT", "a CloudEvent needs a type in UTF-8 without control characters and noncharacters",
                    error);
    }
    FormatUuid(event.id, id_);
    Put("specversion", kSpecVersion);
    Put("id", {id_, sizeof(id_)});
    Put("source", source_);
    Put("type", event.event_type);
    Put("time", PutTime(event.created_at, time_));
    if (!event.aggregate_id.empty() && IsValue(event.aggregate_id)) {
      Put("subject", event.aggregate_id);
    }
    if (!event.aggregate_type.empty() && IsValue(event.aggregate_type)) {
      Put("aggregatetype", event.aggregate_type);
    }
    if (!record.key.empty() && IsValue(record.key)) {
      Put("partitionkey", record.key);
    }
    // In the order of text, too.
    Put("sequence", {sequence_, static_cast<size_t>(PutDigits(event.created_at, 16, sequence_) - sequence_)});
    return Headers(event, error);
  }

  // The name of a header that is no attribute, as the destination has it.
  std::string_view HeaderName(std::string_view name) {
    if (!flat_) {
      return name;
    }
    const size_t start = names_.size();
    names_.append(header_prefix_).append(name);
    return std::string_view(names_).substr(start);
  }

  // Views of the names are taken, so they must not move.
  void ReserveNames(const Event& event) {
    const size_t packed = event.headers.packed.size();
    names_.clear();
    names_.reserve(2 * (packed + packed / 8 * std::max(kPrefix.size(), header_prefix_.size())));
  }

  const std::string source_;
  const std::string_view header_prefix_;
  const bool flat_;  // the record is a list of fields, the payload among them
  std::string names_;

 private:
  void Put(std::string_view name, std::string_view value) { static_cast<Mode*>(this)->Attribute(name, value); }

  bool Headers(const Event& event, Error* error) {
    bool good = true;
    event.headers.ForEach([&](std::string_view name, std::string_view value) {
      if (!good) {
        return;
      }
      if (StartsIgnoringCase(name, kPrefix)) {
        good = Refuse("HEADER_NAME_TAKEN", "a header's name begins with \"ce_\", as the attributes of a CloudEvent do",
                      error);
        return;
      }
      bool attribute = false;
      if (name == "dataschema") {
        attribute = IsUri(value);
        if (attribute) {
          Put("dataschema", value);
        }
      } else if (name == "schema_version") {
        attribute = IsValue(value);
        if (attribute) {
          Put("schemaversion", value);
        }
      } else if (IsName(name) && !IsOwn(name) && IsValue(value)) {
        attribute = true;
        Put(name, value);
      }
      if (!attribute || IsTrace(name)) {
        static_cast<Mode*>(this)->Header(name, value);
      }
    });
    return good;
  }

  char id_[kUuidTextLength];
  char time_[32];
  char sequence_[16];
};

// --- binary: attributes are fields, the body is the payload ---

class BinaryEncoder final : public CloudEventsEncoder<BinaryEncoder> {
 public:
  using CloudEventsEncoder::CloudEventsEncoder;

  bool Encode(const Event& event, sink::Record* record, Error* error) override {
    const std::string_view content_type = IsNull(event.content_type) ? kJson : event.content_type;
    if (StartsIgnoringCase(content_type, "application/cloudevents")) {
      return Refuse("CONTENT_TYPE_TAKEN", "the payload is a CloudEvent by its content type, and would be read as one",
                    error);
    }
    fields_ = &record->fields;
    ReserveNames(event);
    if (!Attributes(event, *record, error)) {
      return false;
    }
    fields_->push_back({"content-type", content_type});
    if (flat_) {
      record->fields_only = true;
      if (!IsNull(record->body)) {
        fields_->push_back({"data", record->body});
        record->body = {};
      }
    }
    return true;
  }

  void Attribute(std::string_view name, std::string_view value) {
    const std::string_view known = Prefixed(name);
    if (!known.empty()) {
      fields_->push_back({known, value});
      return;
    }
    const size_t start = names_.size();
    names_.append(kPrefix).append(name);
    fields_->push_back({std::string_view(names_).substr(start), value});
  }
  void Header(std::string_view name, std::string_view value) { fields_->push_back({HeaderName(name), value}); }

 private:
  // The names that every event has, with the prefix.
  static std::string_view Prefixed(std::string_view name) {
    constexpr std::string_view kNames[] = {"ce_specversion",  "ce_id",         "ce_source",        "ce_type",
                                           "ce_time",         "ce_subject",    "ce_sequence",      "ce_aggregatetype",
                                           "ce_partitionkey", "ce_dataschema", "ce_schemaversion", "ce_traceparent",
                                           "ce_tracestate"};
    for (const std::string_view prefixed : kNames) {
      if (prefixed.substr(kPrefix.size()) == name) {
        return prefixed;
      }
    }
    return {};
  }

  std::vector<sink::Field>* fields_ = nullptr;
};

// --- structured: all of it is one JSON object ---

class StructuredEncoder final : public CloudEventsEncoder<StructuredEncoder> {
 public:
  using CloudEventsEncoder::CloudEventsEncoder;

  bool Encode(const Event& event, sink::Record* record, Error* error) override {
    fields_ = &record->fields;
    ReserveNames(event);
    json_.assign(1, '{');
    fields_->push_back({"content-type", kStructured});
    if (!Attributes(event, *record, error)) {
      return false;
    }
    const std::string_view content_type = IsNull(event.content_type) ? kJson : event.content_type;
    if (IsValue(content_type)) {
      Attribute("datacontenttype", content_type);
    }
    if (!IsNull(event.payload)) {
      Data(event);
    }
    json_.push_back('}');
    if (flat_) {
      record->fields_only = true;
      record->body = {};
      fields_->push_back({"event", json_});
    } else {
      record->body = json_;
    }
    return true;
  }

  void Attribute(std::string_view name, std::string_view value) {
    if (json_.size() > 1) {
      json_.push_back(',');
    }
    json_.append(1, '"').append(name).append("\":");
    AppendJsonString(value, &json_);
  }
  void Header(std::string_view name, std::string_view value) { fields_->push_back({HeaderName(name), value}); }

 private:
  void Data(const Event& event) {
    // Without a content type it is JSON: emit() has looked, but not for UTF-8 in a database that has no encoding. Bytes
    // of another charset may be UTF-8 by chance, and would be other characters then.
    const bool json = IsNull(event.content_type) || SaysJson(event.content_type);
    const bool utf8 = IsNull(event.content_type) || SaysUtf8(event.content_type);
    if (IsNull(event.content_type) ? IsUtf8(event.payload) : json && utf8 && IsJson(event.payload)) {
      json_.append(",\"data\":").append(event.payload);
    } else if (!json && utf8 && SaysText(event.content_type) && IsUtf8(event.payload)) {
      json_.append(",\"data\":");
      AppendJsonString(event.payload, &json_);
    } else {
      json_.append(",\"data_base64\":\"");
      AppendBase64(event.payload, &json_);
      json_.push_back('"');
    }
  }

  std::string json_;
  std::vector<sink::Field>* fields_ = nullptr;
};

sink::OptionProblem CheckSource(std::string_view value) {
  if (IsUriReference(value)) {
    return {};
  }
  return {"22023", "invalid value for route option \"source\": \"" + std::string(value) + "\"",
          "The source of a CloudEvent is a URI reference.",
          "For example \"https://shop.example/orders\" or \"/shop\"."};
}

constexpr sink::RouteOption kSourceOption = {.name = "source", .check = CheckSource};
constexpr sink::RouteOption kBinaryOptions[] = {kSourceOption, kFramingOption};
constexpr sink::RouteOption kStructuredOptions[] = {kSourceOption};

std::vector<TakenName> Taken(const sink::OptionList&) {
  return {{std::string(kPrefix), true}};
}

sink::OptionProblem CheckBinary(const Use& use) {
  if (use.kind->has_fields[static_cast<size_t>(use.form)]) {
    return {};
  }
  return {"0A000", "format cloudevents has no place in a list or channel of " + std::string(use.kind->title),
          "A list or channel takes the payload alone, and this format has the attributes beside it.",
          "Use format cloudevents-json, where all is in the payload, or mode stream."};
}

}  // namespace

extern const Format kCloudEventsFormat;
constinit const Format kCloudEventsFormat = {
    .name = "cloudevents",
    .options = kBinaryOptions,
    .taken = Taken,
    .check = CheckBinary,
    .make = [](const Use& use) { return WithFraming(use, std::make_unique<BinaryEncoder>(use)); },
};

extern const Format kCloudEventsJsonFormat;
constinit const Format kCloudEventsJsonFormat = {
    .name = "cloudevents-json",
    .options = kStructuredOptions,
    .taken = Taken,
    .make = [](const Use& use) -> std::unique_ptr<Encoder> { return std::make_unique<StructuredEncoder>(use); },
};

}  // namespace outbox::format
