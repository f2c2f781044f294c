#include "admin/show/samples.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "admin/common/query.h"
#include "pg/guard.h"

extern "C" {
#include "utils/jsonb.h"
}

namespace outbox::admin {

namespace {

constexpr int kColumns = 5;
constexpr int kMostLabels = 12;

const char* KindName(SampleKind kind) {
  switch (kind) {
    case SampleKind::kCounter:
      return "counter";
    case SampleKind::kGauge:
      return "gauge";
    case SampleKind::kHistogram:
      return "histogram";
    case SampleKind::kStateSet:
      return "stateset";
    case SampleKind::kInfo:
      return "info";
  }
  return "unknown";
}

const char* SuffixOf(SampleKind kind) {
  return kind == SampleKind::kCounter ? "_total" : kind == SampleKind::kInfo ? "_info" : "";
}

// Shortest that reads back as the same; never in a locale's form.
std::string Number(double value) {
  char text[40];
  if (std::floor(value) == value && std::fabs(value) < 1e15) {
    std::snprintf(text, sizeof(text), "%.0f", value);
  } else {
    std::snprintf(text, sizeof(text), "%.15g", value);
  }
  return text;
}

// Bounds in seconds, as `le` has them.
const char* Bound(size_t bucket) {
  static const auto* bounds = [] {
    auto* made = new std::vector<std::string>;
    for (const int64_t bound : kLatencyBounds) {
      made->push_back(Number(static_cast<double>(bound) / 1e6));
    }
    for (std::string& text : *made) {  // OpenMetrics wants a number with a point
      text += text.find('.') == std::string::npos ? ".0" : "";
    }
    made->emplace_back("+Inf");
    return made;
  }();
  return (*bounds)[bucket].c_str();
}

void AppendEscaped(std::string_view text, std::string* to) {
  for (const char c : text) {
    if (c == '\\' || c == '"') {
      *to += '\\';
      *to += c;
    } else if (c == '\n') {
      *to += "\\n";
    } else {
      *to += c;
    }
  }
}

// One label of a sample, by whatever it is kept in.
struct Label {
  const char* name;
  const char* value;
  uint32 name_length;
  uint32 value_length;
};

// As jsonb keeps its keys.
bool GoesBefore(const Label& a, const Label& b) {
  return a.name_length != b.name_length ? a.name_length < b.name_length : memcmp(a.name, b.name, a.name_length) < 0;
}

// An object of strings as it lies in a jsonb (utils/jsonb.h), into memory that is used again: an input function would
// parse it, ten thousand times. Plain; the caller has no more than kMostLabels labels.
class JsonbWriter {
 public:
  Datum Write(Label* labels, int count) {
    static_assert(2 * kMostLabels < JB_OFFSET_STRIDE);  // so only the first entry has an offset
    std::sort(labels, labels + count, GoesBefore);
    Size size = VARHDRSZ + sizeof(uint32) + 2 * sizeof(JEntry) * static_cast<Size>(count);
    for (int i = 0; i < count; i++) {
      size += labels[i].name_length + labels[i].value_length;
    }
    if (size > room_) {
      room_ = Max(size, Size{1024});
      bytes_ = static_cast<char*>(palloc(room_));
    }
    SET_VARSIZE(bytes_, size);
    auto* container = reinterpret_cast<JsonbContainer*>(bytes_ + VARHDRSZ);
    container->header = static_cast<uint32>(count) | JB_FOBJECT;
    char* to = reinterpret_cast<char*>(container->children + 2 * count);
    for (int i = 0; i < count; i++) {
      container->children[i] = JENTRY_ISSTRING | labels[i].name_length | (i == 0 ? JENTRY_HAS_OFF : 0);
      memcpy(to, labels[i].name, labels[i].name_length);
      to += labels[i].name_length;
    }
    for (int i = 0; i < count; i++) {
      container->children[count + i] = JENTRY_ISSTRING | labels[i].value_length;
      memcpy(to, labels[i].value, labels[i].value_length);
      to += labels[i].value_length;
    }
    return PointerGetDatum(bytes_);
  }

 private:
  char* bytes_ = nullptr;  // of the current memory context
  Size room_ = 0;
};

Label LabelOf(const char* name, const char* value, size_t length) {
  return {name, value, static_cast<uint32>(strlen(name)), static_cast<uint32>(length)};
}

}  // namespace

const Labels* Samples::Keep(Labels labels) {
  kept_.push_back(std::move(labels));
  return &kept_.back();
}

Samples::FamilySamples* Samples::Of(const Family& family) {
  for (FamilySamples& known : families_) {
    if (known.family == &family) {
      return &known;
    }
  }
  families_.push_back({&family, {}});
  return &families_.back();
}

void Samples::Add(const Family& family, const Labels* labels, double value) {
  Of(family)->samples.push_back({SuffixOf(family.kind), labels, nullptr, nullptr, value});
}

void Samples::Add(const Family& family, const Labels* labels, const char* label, const char* of_label, double value) {
  Of(family)->samples.push_back({SuffixOf(family.kind), labels, label, of_label, value});
}

void Samples::AddHistogram(const Family& family, const Labels* labels, const LatencyHistogram& histogram) {
  std::vector<Sample>* samples = &Of(family)->samples;
  uint64_t sum = 0;
  for (size_t i = 0; i < kLatencyBuckets; i++) {
    sum += histogram.bucket(i);
    samples->push_back({"_bucket", labels, "le", Bound(i), static_cast<double>(sum)});
  }
  samples->push_back({"_count", labels, nullptr, nullptr, static_cast<double>(sum)});
  samples->push_back({"_sum", labels, nullptr, nullptr, static_cast<double>(histogram.sum()) / 1e6});
}

void Samples::AddStates(const Family& family, const Labels* labels, const std::vector<const char*>& states,
                        const std::string& state) {
  for (const char* one : states) {
    Add(family, labels, family.name, one, state == one ? 1 : 0);
  }
}

void Samples::Return(FunctionCallInfo fcinfo) const {
  ReturnSetInfo* result = pg::Guard([&] {
    InitMaterializedSRF(fcinfo, 0);
    auto* info = reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo);
    CheckColumns(info->setDesc->natts, kColumns);
    return info;
  });
  pg::Guard([&] {
    JsonbWriter labels_writer;
    for (const FamilySamples& of : families_) {
      const char* suffix = nullptr;
      Datum values[kColumns] = {};
      bool nulls[kColumns] = {};
      values[3] = CStringGetTextDatum(KindName(of.family->kind));
      values[4] = CStringGetTextDatum(of.family->help);
      for (const Sample& sample : of.samples) {
        if (suffix != sample.suffix) {
          suffix = sample.suffix;
          values[0] = CStringGetTextDatum(psprintf("%s%s", of.family->name, suffix));
        }
        Label labels[kMostLabels];
        int count = 0;
        for (const auto& [name, value] : *sample.labels) {
          labels[count++] = LabelOf(name, value.data(), value.size());
        }
        if (sample.label != nullptr) {
          labels[count++] = LabelOf(sample.label, sample.of_label, strlen(sample.of_label));
        }
        values[1] = labels_writer.Write(labels, count);
        values[2] = Float8GetDatum(sample.value);
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
      }
    }
  });
}

std::string Samples::Text(TextFormat format) const {
  const bool open = format == TextFormat::kOpenMetrics;
  std::string text;
  for (const FamilySamples& of : families_) {
    const Family& family = *of.family;
    // The older format has neither state sets nor infos, and a counter's name there ends with _total.
    const std::string name = family.name;
    const std::string told = open ? name : name + SuffixOf(family.kind);
    const bool gauge = !open && (family.kind == SampleKind::kStateSet || family.kind == SampleKind::kInfo);
    text += "# TYPE " + told + " " + (gauge ? "gauge" : KindName(family.kind)) + "\n";
    if (open && family.unit[0] != '\0') {
      text += "# UNIT " + told + " " + family.unit + "\n";
    }
    text += "# HELP " + told + " ";
    AppendEscaped(family.help, &text);
    text += "\n";
    for (const Sample& sample : of.samples) {
      text += name + sample.suffix;
      const char* separator = "{";
      const auto append = [&](const char* label, std::string_view value) {
        text += separator + std::string(label) + "=\"";
        AppendEscaped(value, &text);
        text += "\"";
        separator = ",";
      };
      for (const auto& [label, value] : *sample.labels) {
        append(label, value);
      }
      if (sample.label != nullptr) {
        append(sample.label, sample.of_label);
      }
      text += (*separator == '{' ? " " : "} ") + Number(sample.value) + "\n";
    }
  }
  if (open) {
    return text + "# EOF";
  }
  if (!text.empty()) {
    text.pop_back();
  }
  return text;
}

}  // namespace outbox::admin
