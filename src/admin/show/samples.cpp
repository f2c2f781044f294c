#include "admin/show/samples.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "admin/common/query.h"
#include "base/utf8.h"
#include "pg/encoding.h"
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

Label LabelOf(const char* name, const char* value, size_t length) {
  return {name, value, static_cast<uint32>(strlen(name)), static_cast<uint32>(length)};
}

// The labels of a sample, in the order of jsonb. Samples that have the same labels, or all but one, come together.
class LabelList {
 public:
  void Set(const Labels* base, const char* label, const char* of_label) {
    if (base != base_) {
      base_ = base;
      base_count_ = 0;
      for (const auto& [name, value] : *base) {
        base_labels_[base_count_++] = LabelOf(name, value.data(), value.size());
      }
      std::sort(base_labels_, base_labels_ + base_count_, GoesBefore);
    }
    count_ = 0;
    const Label more = label == nullptr ? Label{} : LabelOf(label, of_label, strlen(of_label));
    bool added = label == nullptr;
    for (int i = 0; i < base_count_; i++) {
      if (!added && GoesBefore(more, base_labels_[i])) {
        labels_[count_++] = more;
        added = true;
      }
      labels_[count_++] = base_labels_[i];
    }
    if (!added) {
      labels_[count_++] = more;
    }
  }
  int count() const { return count_; }
  const Label& operator[](int i) const { return labels_[i]; }
  Size bytes() const {
    Size size = 0;
    for (int i = 0; i < count_; i++) {
      size += labels_[i].name_length + labels_[i].value_length;
    }
    return size;
  }

 private:
  const Labels* base_ = nullptr;
  Label base_labels_[kMostLabels];
  int base_count_ = 0;
  Label labels_[kMostLabels + 1];
  int count_ = 0;
};

// An object of strings as it lies in a jsonb (utils/jsonb.h): an input function would parse it, ten thousand times.
Size JsonbSize(const LabelList& labels) {
  return VARHDRSZ + sizeof(uint32) + 2 * sizeof(JEntry) * static_cast<Size>(labels.count()) + labels.bytes();
}

// `to`: aligned as an int.
void WriteJsonb(const LabelList& labels, Size size, char* to) {
  static_assert(2 * (kMostLabels + 1) < JB_OFFSET_STRIDE);  // so only the first entry has an offset
  const int count = labels.count();
  SET_VARSIZE(to, size);
  auto* container = reinterpret_cast<JsonbContainer*>(to + VARHDRSZ);
  container->header = static_cast<uint32>(count) | JB_FOBJECT;
  char* bytes = reinterpret_cast<char*>(container->children + 2 * count);
  for (int i = 0; i < count; i++) {
    container->children[i] = JENTRY_ISSTRING | labels[i].name_length | (i == 0 ? JENTRY_HAS_OFF : 0);
    memcpy(bytes, labels[i].name, labels[i].name_length);
    bytes += labels[i].name_length;
  }
  for (int i = 0; i < count; i++) {
    container->children[count + i] = JENTRY_ISSTRING | labels[i].value_length;
    memcpy(bytes, labels[i].value, labels[i].value_length);
    bytes += labels[i].value_length;
  }
}

// Rows (name, labels, value, kind, help) as a tuple has them, in memory that is used again: what samples have in common
// is laid down once, and forming each tuple from its columns costs three times as much as all else that is done for it.
// Plain; in the current memory context.
class RowWriter {
 public:
  // Columns behind `value` are the same for all samples of a family.
  void SetFamily(const Family& family) {
    tail_size_ = 0;
    Append(KindName(family.kind), &tail_, &tail_size_);
    Append(family.help, &tail_, &tail_size_);
    head_size_ = 0;
  }
  void SetName(const char* family, const char* suffix) {
    head_size_ = 0;
    Append(psprintf("%s%s", family, suffix), &head_, &head_size_);
  }
  HeapTuple Write(const LabelList& labels, double value) {
    const Size header = MAXALIGN(SizeofHeapTupleHeader);
    const Size labels_size = JsonbSize(labels);
    const Size labels_at = header + INTALIGN(head_size_);
    const Size value_at = DOUBLEALIGN(labels_at + labels_size);
    const Size tail_at = value_at + sizeof(float8);
    const Size size = tail_at + tail_size_;
    if (size > room_) {
      room_ = Max(2 * size, Size{1024});
      bytes_ = static_cast<char*>(palloc(room_));
      memset(bytes_, 0, header);
      auto* tuple = reinterpret_cast<HeapTupleHeader>(bytes_);
      HeapTupleHeaderSetNatts(tuple, kColumns);
      tuple->t_infomask = HEAP_HASVARWIDTH;
      tuple->t_hoff = static_cast<uint8>(header);
      tuple_.t_data = tuple;
    }
    // What is between two columns has to be zero.
    memcpy(bytes_ + header, head_.bytes, head_size_);
    memset(bytes_ + header + head_size_, 0, labels_at - header - head_size_);
    WriteJsonb(labels, labels_size, bytes_ + labels_at);
    memset(bytes_ + labels_at + labels_size, 0, value_at - labels_at - labels_size);
    memcpy(bytes_ + value_at, &value, sizeof(value));
    memcpy(bytes_ + tail_at, tail_.bytes, tail_size_);
    tuple_.t_len = static_cast<uint32>(size);
    return &tuple_;
  }

 private:
  struct Bytes {
    char* bytes;
    Size room;
  };

  // A text behind those that are there, aligned if it has a header of four bytes.
  static void Append(const char* text, Bytes* to, Size* used) {
    const Size length = strlen(text);
    const bool small = length + VARHDRSZ_SHORT <= VARATT_SHORT_MAX;
    const Size at = small ? *used : INTALIGN(*used);
    const Size end = at + length + (small ? VARHDRSZ_SHORT : VARHDRSZ);
    if (end > to->room) {
      const Size room = 2 * end;
      char* bytes = static_cast<char*>(palloc0(room));
      memcpy(bytes, to->bytes == nullptr ? "" : to->bytes, *used);
      *to = {bytes, room};
    }
    memset(to->bytes + *used, 0, at - *used);
    if (small) {
      SET_VARSIZE_SHORT(to->bytes + at, length + VARHDRSZ_SHORT);
    } else {
      SET_VARSIZE(to->bytes + at, length + VARHDRSZ);
    }
    memcpy(to->bytes + end - length, text, length);
    *used = end;
  }

  HeapTupleData tuple_ = {};
  char* bytes_ = nullptr;
  Size room_ = 0;
  Bytes head_ = {};
  Size head_size_ = 0;
  Bytes tail_ = {};
  Size tail_size_ = 0;
};

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

void Samples::SumUp(const Labels* labels) {
  for (FamilySamples& of : families_) {
    std::vector<Sample>* samples = &of.samples;
    std::vector<size_t> seen;  // with these labels: two for each bucket of a histogram at most
    size_t kept = 0;
    for (const Sample& sample : *samples) {
      const auto same = [&](size_t i) {
        const Sample& other = (*samples)[i];
        return strcmp(other.suffix, sample.suffix) == 0 &&
               (other.label == nullptr || sample.label == nullptr
                    ? other.label == sample.label
                    : strcmp(other.label, sample.label) == 0 && strcmp(other.of_label, sample.of_label) == 0);
      };
      if (sample.labels == labels) {
        if (const auto first = std::find_if(seen.begin(), seen.end(), same); first != seen.end()) {
          (*samples)[*first].value += sample.value;
          continue;
        }
        seen.push_back(kept);
      }
      (*samples)[kept++] = sample;
    }
    samples->resize(kept);
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
    LabelList labels;
    RowWriter writer;
    for (const FamilySamples& of : families_) {
      const char* suffix = nullptr;
      writer.SetFamily(*of.family);
      for (const Sample& sample : of.samples) {
        if (suffix != sample.suffix) {
          suffix = sample.suffix;
          writer.SetName(of.family->name, suffix);
        }
        labels.Set(sample.labels, sample.label, sample.of_label);
        tuplestore_puttuple(result->setResult, writer.Write(labels, sample.value));
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
        // The formats are UTF-8. A database in SQL_ASCII takes any bytes as a name.
        AppendEscaped(pg::SpeaksUtf8() && !IsUtf8(value) ? SpelledUtf8(value) : std::string(value), &text);
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
