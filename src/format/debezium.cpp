// `debezium`: what Debezium's outbox event router publishes, byte for byte, with its own names for options: of Debezium
// 3.6, by Kafka Connect (converters of strings, or of JSON without schemas) or by Debezium Server, whose sink for Redis
// it is, too. test/t/280_debezium.pl shows it beside the real one.
//
//   key     the route's, as key.converter says
//   header  id; the placed ones; then the event's own that are not placed, unless event.headers is "placed"
//   value   the payload; with a column in the envelope {"payload": ..., column: ...}
//
// A column of the placement that the event does not have is one of its headers: what other columns of an outbox table
// became in outbox.outboxevent.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <deque>

#include "base/media_type.h"
#include "base/near_names.h"
#include "base/release.h"
#include "base/utf8.h"
#include "format/connect_json.h"
#include "format/format.h"
#include "format/json_expander.h"
#include "format/json_writer.h"

namespace outbox::format {

namespace {

constexpr const char* kInvalidValue = "22023";
constexpr const char* kNotSupported = "0A000";

constexpr std::string_view kPlacement = "table.fields.additional.placement";
constexpr std::string_view kExpand = "table.expand.json.payload";
constexpr std::string_view kNulls = "table.json.payload.null.behavior";
constexpr std::string_view kEmptyArrays = "table.json.payload.empty.array.behavior";
constexpr std::string_view kTombstone = "route.tombstone.on.empty.payload";
constexpr std::string_view kKeyConverter = "key.converter";
constexpr std::string_view kValueConverter = "value.converter";
constexpr std::string_view kHeaderConverter = "header.converter";
constexpr std::string_view kLayout = "message.format";
constexpr std::string_view kNullKey = "null.key";
constexpr std::string_view kNullValue = "null.value";
// Ours: whether headers of the event that no placement names are sent, too, or as Debezium does with columns.
constexpr std::string_view kEventHeaders = "event.headers";
constexpr std::string_view kDefaultNull = "default";  // Debezium's, for keys and values that are null
// A text of more than this keeps its memory until the next event only: there are as many encoders as lanes.
constexpr size_t kMostTextKept = 1 << 20;

enum class Column : uint8_t { kId, kAggregateType, kAggregateId, kType, kTimestamp, kHeader };
enum class Place : uint8_t { kHeader, kEnvelope, kPartition };

struct Placed {
  Column column = Column::kHeader;
  Place place = Place::kHeader;
  bool number = false;  // a number, true or false is written as such where it is JSON
  std::string name;     // of the column
  std::string alias;
};

// Debezium's names of columns, and those of outbox.event.
constexpr struct {
  std::string_view name;
  Column column;
} kColumns[] = {
    {"id", Column::kId},
    {"aggregatetype", Column::kAggregateType},
    {"aggregate_type", Column::kAggregateType},
    {"aggregateid", Column::kAggregateId},
    {"aggregate_id", Column::kAggregateId},
    {"type", Column::kType},
    {"event_type", Column::kType},
    {"timestamp", Column::kTimestamp},
    {"created_at", Column::kTimestamp},
};

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t' || text.front() == '\n')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\n')) {
    text.remove_suffix(1);
  }
  return text;
}

// Up to `separator`, which goes with it; all of it where there is none.
std::string_view TakePart(std::string_view* rest, char separator) {
  const size_t end = rest->find(separator);
  const std::string_view part = rest->substr(0, end);
  rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + 1);
  return Trimmed(part);
}

sink::OptionProblem BadPlacement(std::string_view part, std::string detail, std::string hint) {
  return {kInvalidValue, "invalid placement \"" + std::string(part) + "\"", std::move(detail), std::move(hint)};
}

sink::OptionProblem ParsePlaced(std::string_view part, Placed* placed) {
  constexpr const char* kForm =
      "A placement is column:header, column:envelope or column:partition, with :alias behind it at "
      "will, such as type:header:eventType.";
  std::string_view rest = part;
  const std::string_view column = TakePart(&rest, ':');
  const std::string_view place = TakePart(&rest, ':');
  const bool aliased = !rest.empty();
  const std::string_view alias = TakePart(&rest, ':');
  const std::string_view type = TakePart(&rest, ':');
  if (column.empty() || place.empty() || !rest.empty() || (aliased && alias.empty()) || part.back() == ':') {
    return BadPlacement(part, "It has an empty part, or too few or too many of them.", kForm);
  }
  const auto known =
      std::find_if(std::begin(kColumns), std::end(kColumns), [&](const auto& c) { return c.name == column; });
  placed->column = known == std::end(kColumns) ? Column::kHeader : known->column;
  placed->name = column;
  placed->alias = aliased ? alias : column;
  if (place == "header") {
    placed->place = Place::kHeader;
  } else if (place == "envelope") {
    placed->place = Place::kEnvelope;
  } else if (place == "partition") {
    placed->place = Place::kPartition;
  } else {
    const std::string near = DidYouMean(place, {"header", "envelope", "partition"});
    return BadPlacement(part, "There is no place \"" + std::string(place) + "\".",
                        near + (near.empty() ? "" : " ") + kForm);
  }
  if (column == "payload") {
    return BadPlacement(part, "The payload is the value.", "Leave it out.");
  }
  if (!type.empty() && type != "number") {
    return BadPlacement(part, "The fourth part is \"" + std::string(type) + "\".",
                        "It is number (for a column of numbers or booleans that is written as JSON), or left out.");
  }
  placed->number = !type.empty();
  if (placed->place == Place::kPartition && placed->column != Column::kHeader) {
    return BadPlacement(part, "\"" + std::string(column) + "\" is no number.",
                        "Place a header of the event that has the number of the partition.");
  }
  if (placed->place == Place::kEnvelope && placed->alias == "payload") {
    return BadPlacement(part, "The envelope has a member \"payload\" already.", "Choose another alias.");
  }
  return {};
}

sink::OptionProblem ParsePlacement(std::string_view text, std::vector<Placed>* placement) {
  if (Trimmed(text).empty()) {
    return BadPlacement(text, "It is empty.", "Leave the option out.");
  }
  while (true) {
    const bool last = text.find(',') == std::string_view::npos;
    const std::string_view part = TakePart(&text, ',');
    Placed placed;
    if (part.empty()) {
      return BadPlacement(part, "There is a comma too many.", "Placements are separated by commas.");
    }
    if (sink::OptionProblem problem = ParsePlaced(part, &placed); !problem.ok()) {
      return problem;
    }
    for (const Placed& other : *placement) {
      if (other.place == placed.place && (placed.place == Place::kPartition || other.alias == placed.alias)) {
        return BadPlacement(part,
                            placed.place == Place::kPartition
                                ? "There is a partition already."
                                : "There is a \"" + placed.alias + "\" in that place already.",
                            "Give each its own alias.");
      }
    }
    placement->push_back(std::move(placed));
    if (last) {
      return {};
    }
  }
}

sink::OptionProblem CheckPlacement(std::string_view text) {
  std::vector<Placed> placement;
  return ParsePlacement(text, &placement);
}

bool IsJsonConverter(std::string_view value) {
  return value == "json" || value == "org.apache.kafka.connect.json.JsonConverter";
}

bool IsStringConverter(std::string_view value) {
  return value == "string" || value == "simplestring" || value == "org.apache.kafka.connect.storage.StringConverter" ||
         value == "org.apache.kafka.connect.storage.SimpleHeaderConverter" ||
         value == "io.debezium.converters.BinaryDataConverter";
}

sink::OptionProblem CheckConverter(std::string_view value) {
  if (IsJsonConverter(value) || IsStringConverter(value)) {
    return {};
  }
  return {kInvalidValue, "unknown converter \"" + std::string(value) + "\"",
          "Known are string, which writes text as it is, and json, which writes JSON without a schema.",
          "Say string or json, or the name of Kafka Connect's class for it: "
          "org.apache.kafka.connect.storage.StringConverter, "
          "org.apache.kafka.connect.json.JsonConverter (with schemas.enable=false)."};
}

sink::OptionProblem AnyText(std::string_view) {
  return {};
}

constexpr sink::RouteOption kOptions[] = {
    {.name = kPlacement.data(), .check = CheckPlacement},
    {.name = kExpand.data(), .choices = "true|false"},
    {.name = kNulls.data(), .choices = "ignore|optional_bytes"},
    {.name = kEmptyArrays.data(), .choices = "ignore|optional_string"},
    {.name = kTombstone.data(), .choices = "true|false"},
    {.name = kKeyConverter.data(), .check = CheckConverter},
    {.name = kValueConverter.data(), .check = CheckConverter},
    {.name = kHeaderConverter.data(), .check = CheckConverter},
    {.name = kEventHeaders.data(), .choices = "all|placed"},
    {.name = kLayout.data(), .choices = "compact|extended"},
    {.name = kNullKey.data(), .check = AnyText},
    {.name = kNullValue.data(), .check = AnyText},
};

// A record is a list of fields, and has no partition.
bool IsFlat(const Use& use) {
  return use.kind->needs_field;
}

std::vector<Placed> PlacementOf(const sink::OptionList& options) {
  std::vector<Placed> placement;
  if (const std::string_view text = sink::RouteOptionValue(options, kPlacement); !IsNull(text)) {
    ParsePlacement(text, &placement);
  }
  return placement;
}

// Names that the placement gives to columns, but for headers that are placed and so not sent under their own.
std::vector<TakenName> Taken(const sink::OptionList& options) {
  std::vector<TakenName> taken;
  const std::vector<Placed> placement = PlacementOf(options);
  if (sink::RouteOptionValue(options, kEventHeaders) == "placed") {
    return taken;
  }
  const bool upper = sink::RouteOptionValue(options, kLayout) == "extended";  // names are there in upper case
  for (const Placed& placed : placement) {
    if (placed.place == Place::kHeader && std::none_of(placement.begin(), placement.end(), [&](const Placed& other) {
          return other.column == Column::kHeader && other.name == placed.alias;
        })) {
      taken.push_back({.name = placed.alias, .any_case = upper});
    }
  }
  return taken;
}

sink::OptionProblem Check(const Use& use) {
  if (!use.kind->has_fields[static_cast<size_t>(use.form)]) {
    return {kNotSupported, "the format debezium needs records with more than a body",
            "Debezium has nothing like it, and the event's id would be lost.",
            "Leave the option mode out, for streams."};
  }
  const std::vector<Placed> placement = PlacementOf(*use.options);
  const bool enveloped =
      std::any_of(placement.begin(), placement.end(), [](const Placed& p) { return p.place == Place::kEnvelope; });
  const bool expanded = use.Option(kExpand) == "true";
  if ((enveloped || expanded) && IsStringConverter(use.Option(kValueConverter))) {
    return {kInvalidValue, "value.converter must be json",
            enveloped ? "A value with an envelope is an object."
                      : "table.expand.json.payload makes an object of the payload.",
            "Leave value.converter out: it is json then."};
  }
  if (IsFlat(use)) {
    for (const Placed& placed : placement) {
      if (placed.place == Place::kPartition) {
        return {kNotSupported, "placement \"" + placed.name + ":partition\" has no meaning there",
                std::string("There are no partitions in ") + use.kind->title + ".", "Leave it out."};
      }
    }
    return {};
  }
  for (const std::string_view option : {kLayout, kNullKey, kNullValue}) {
    if (!IsNull(use.Option(option))) {
      return {kNotSupported, "route option \"" + std::string(option) + "\" has no meaning there",
              "It is one of Debezium Server's sink for Redis streams.", "Leave it out."};
    }
  }
  return {};
}

// Whether Debezium would have had the payload in a column of text. (JSON of a database in SQL_ASCII may be other
// bytes.)
bool IsTextual(const Event& event) {
  return (IsNull(event.content_type) || SaysText(event.content_type)) && IsUtf8(event.payload);
}

// As String.trim() finds.
bool IsBlank(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) <= ' '; });
}

bool IsJsonScalar(std::string_view text) {
  return text == "true" || text == "false" ||
         (!text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9')) && text.back() >= '0' &&
          IsJson(text));
}

// As Debezium writes a timestamptz: UTC, without zeros at the end of the fraction.
void AppendZonedTimestamp(int64_t micros, std::string* out) {
  using std::chrono::days;
  using std::chrono::microseconds;
  const std::chrono::sys_time<microseconds> time{microseconds(micros)};
  const auto day = std::chrono::floor<days>(time);
  const std::chrono::year_month_day date(day);
  const int64_t rest = (time - day).count();
  const auto seconds = static_cast<int>(rest / 1'000'000);
  char text[64];
  std::snprintf(text, sizeof(text), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), seconds / 3600,
                seconds / 60 % 60, seconds % 60);
  out->append(text);
  if (const auto fraction = static_cast<int>(rest % 1'000'000); fraction != 0) {
    std::snprintf(text, sizeof(text), ".%06d", fraction);
    std::string_view digits = text;
    while (digits.back() == '0') {
      digits.remove_suffix(1);
    }
    out->append(digits);
  }
  out->push_back('Z');
}

class DebeziumEncoder final : public Encoder {
 public:
  explicit DebeziumEncoder(const Use& use)
      : placement_(PlacementOf(*use.options)),
        taken_(Taken(*use.options)),
        expander_({.keep_nulls = use.Option(kNulls) == "optional_bytes",
                   .keep_empty_arrays = use.Option(kEmptyArrays) == "optional_string"}),
        enveloped_(std::any_of(placement_.begin(), placement_.end(),
                               [](const Placed& p) { return p.place == Place::kEnvelope; })),
        expand_(use.Option(kExpand) == "true"),
        tombstones_(use.Option(kTombstone) == "true"),
        json_key_(IsJsonConverter(use.Option(kKeyConverter))),
        json_value_(enveloped_ || expand_ || IsJsonConverter(use.Option(kValueConverter))),
        json_headers_(IsJsonConverter(use.Option(kHeaderConverter))),
        own_headers_(use.Option(kEventHeaders) != "placed"),
        flat_(IsFlat(use)),
        extended_(use.Option(kLayout) == "extended"),
        null_key_(IsNull(use.Option(kNullKey)) ? kDefaultNull : use.Option(kNullKey)),
        null_value_(IsNull(use.Option(kNullValue)) ? kDefaultNull : use.Option(kNullValue)) {}

  bool Encode(const Event& event, sink::Record* record, Error* error) override {
    used_ = 0;
    malformed_ = false;
    FormatUuid(event.id, id_);
    timestamp_.clear();
    SetValue(event, record);
    if (json_key_) {
      std::string* key = NewText();
      AppendJsonText(record->key, key);
      record->key = *key;
    }
    std::vector<sink::Field>* fields = &record->fields;
    if (flat_) {
      record->fields_only = true;
      const std::string_view key = IsNull(record->key) ? std::string_view(null_key_) : record->key;
      const std::string_view value = IsNull(record->body) ? std::string_view(null_value_) : record->body;
      if (!extended_) {
        sink::AddField(key, value, fields);
        return WellFormed(error);
      }
      sink::AddField("key", key, fields);
      sink::AddField("value", value, fields);
    }
    AddHeader("id", {id_, sizeof(id_)}, false, fields);
    return AddPlaced(event, record, error) && AddOwnHeaders(event, fields, error) && WellFormed(error);
  }

 private:
  // Text that lives until the next event. A deque: its strings do not move.
  std::string* NewText() {
    if (used_ == texts_.size()) {
      texts_.emplace_back();
    }
    std::string* text = &texts_[used_++];
    if (text->capacity() > kMostTextKept) {
      Release(text);
    }
    text->clear();
    return text;
  }

  void AppendJsonText(std::string_view text, std::string* out) {
    if (IsNull(text)) {
      out->append("null");
    } else {
      malformed_ = malformed_ || !IsUtf8(text);
      AppendConnectString(text, out);
    }
  }

  bool WellFormed(Error* error) const {
    if (malformed_) {
      *error = {ErrorClass::kMessage, "NOT_UTF8",
                "a key, type or header that has to be JSON, by the route's converters, is not in UTF-8"};
    }
    return !malformed_;
  }

  void SetValue(const Event& event, sink::Record* record) {
    if (!tombstones_ && !json_value_) {
      return;
    }
    const bool textual = IsNull(event.payload) || IsTextual(event);
    if (tombstones_ && textual && IsBlank(event.payload)) {
      record->body = {};
      return;
    }
    if (!json_value_) {
      return;
    }
    std::string* value = NewText();
    if (enveloped_) {
      value->append("{\"payload\":");
    }
    if (!textual) {
      value->push_back('"');
      AppendBase64(event.payload, value);
      value->push_back('"');
    } else if (!expand_ || IsNull(event.payload) || !expander_.Expand(event.payload, value)) {
      AppendJsonText(event.payload, value);
    }
    if (enveloped_) {
      for (const Placed& placed : placement_) {
        if (placed.place == Place::kEnvelope) {
          value->push_back(',');
          AppendConnectString(placed.alias, value);
          value->push_back(':');
          AppendJson(ValueOf(event, placed), placed.number, value);
        }
      }
      value->push_back('}');
    }
    record->body = *value;
  }

  void AppendJson(std::string_view text, bool number, std::string* out) {
    if (number && IsJsonScalar(text)) {
      out->append(text);
    } else {
      AppendJsonText(text, out);
    }
  }

  std::string_view ValueOf(const Event& event, const Placed& placed) {
    switch (placed.column) {
      case Column::kId:
        return {id_, sizeof(id_)};
      case Column::kAggregateType:
        return event.aggregate_type;
      case Column::kAggregateId:
        return event.aggregate_id;
      case Column::kType:
        return event.event_type;
      case Column::kTimestamp:
        if (timestamp_.empty()) {
          AppendZonedTimestamp(event.created_at, &timestamp_);
        }
        return timestamp_;
      case Column::kHeader:
        break;
    }
    std::string_view found;
    event.headers.ForEach([&](std::string_view name, std::string_view value) {
      if (name == placed.name) {
        found = value;
      }
    });
    return found;
  }

  void AddHeader(std::string_view name, std::string_view value, bool number, std::vector<sink::Field>* fields) {
    if (json_headers_) {
      std::string* text = NewText();
      AppendJson(value, number, text);
      value = *text;
    }
    if (flat_) {
      std::string* upper = NewText();
      for (const char c : name) {
        upper->push_back(c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c);
      }
      name = *upper;
    }
    sink::AddField(name, value, fields);
  }

  bool AddPlaced(const Event& event, sink::Record* record, Error* error) {
    for (const Placed& placed : placement_) {
      if (placed.place == Place::kHeader) {
        AddHeader(placed.alias, ValueOf(event, placed), placed.number, &record->fields);
      } else if (placed.place == Place::kPartition) {
        const std::string_view text = ValueOf(event, placed);
        if (IsNull(text)) {
          continue;  // as for a column that is NULL: by the key
        }
        int32_t partition = 0;
        const auto parsed = std::from_chars(text.data(), text.data() + text.size(), partition);
        if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || partition < 0) {
          *error = {ErrorClass::kMessage, "INVALID_PARTITION",
                    "header \"" + placed.name + "\", which is the partition, is no number of a partition"};
          return false;
        }
        record->partition = partition;
      }
    }
    return true;
  }

  // What is placed is not sent under its own name as well.
  bool AddOwnHeaders(const Event& event, std::vector<sink::Field>* fields, Error* error) {
    bool good = true;
    if (!own_headers_) {
      return true;
    }
    event.headers.ForEach([&](std::string_view name, std::string_view value) {
      for (const Placed& placed : placement_) {
        if (placed.column == Column::kHeader && placed.name == name) {
          return;
        }
      }
      for (const TakenName& taken : taken_) {
        good = good && !IsTaken(taken, name);
      }
      AddHeader(name, value, false, fields);
    });
    if (!good) {
      *error = {ErrorClass::kMessage, "HEADER_NAME_TAKEN",
                "a header of the event has a name that table.fields.additional.placement gives to another column"};
    }
    return good;
  }

  const std::vector<Placed> placement_;
  const std::vector<TakenName> taken_;
  JsonExpander expander_;
  const bool enveloped_;
  const bool expand_;
  const bool tombstones_;
  const bool json_key_;
  const bool json_value_;
  const bool json_headers_;
  const bool own_headers_;
  const bool flat_;
  const bool extended_;
  const std::string null_key_;
  const std::string null_value_;
  char id_[kUuidTextLength];
  std::string timestamp_;  // of this event, once it is asked for
  std::deque<std::string> texts_;
  size_t used_ = 0;
  bool malformed_ = false;  // something of this event cannot be in JSON
};

}  // namespace

extern const Format kDebeziumFormat;
constinit const Format kDebeziumFormat = {
    .name = "debezium",
    .options = kOptions,
    .taken = Taken,
    .check = Check,
    .make = [](const Use& use) -> std::unique_ptr<Encoder> { return std::make_unique<DebeziumEncoder>(use); },
};

}  // namespace outbox::format
