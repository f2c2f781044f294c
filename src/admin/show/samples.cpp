#include "admin/show/samples.h"

#include <cmath>
#include <cstdio>

#include "admin/common/json.h"
#include "pg/guard.h"

extern "C" {
#include "utils/fmgrprotos.h"
}

namespace outbox::admin {

namespace {

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
const std::string& Bound(size_t bucket) {
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
  return (*bounds)[bucket];
}

void AppendEscaped(const std::string& text, std::string* to) {
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

// As the text of a JSON object.
std::string ToJson(const Labels& labels) {
  std::string json = "{";
  for (const auto& [label, value] : labels) {
    json += json.size() == 1 ? "" : ",";
    AppendJson(label, &json);
    json += ":";
    AppendJson(value, &json);
  }
  return json + "}";
}

}  // namespace

std::vector<Samples::Sample>* Samples::Of(const Family& family) {
  for (auto& [known, samples] : families_) {
    if (known == &family) {
      return &samples;
    }
  }
  families_.emplace_back(&family, std::vector<Sample>());
  return &families_.back().second;
}

void Samples::Add(const Family& family, const Labels& labels, double value) {
  Of(family)->push_back({SuffixOf(family.kind), labels, value});
}

void Samples::AddHistogram(const Family& family, const Labels& labels, const LatencyHistogram& histogram) {
  std::vector<Sample>* samples = Of(family);
  uint64_t sum = 0;
  for (size_t i = 0; i < kLatencyBuckets; i++) {
    sum += histogram.bucket(i);
    samples->push_back({"_bucket", labels, static_cast<double>(sum)});
    samples->back().labels.emplace_back("le", Bound(i));
  }
  samples->push_back({"_count", labels, static_cast<double>(sum)});
  samples->push_back({"_sum", labels, static_cast<double>(histogram.sum()) / 1e6});
}

void Samples::AddStates(const Family& family, const Labels& labels, const std::vector<const char*>& states,
                        const std::string& state) {
  for (const char* one : states) {
    Labels with = labels;
    with.emplace_back(family.name, one);
    Add(family, with, state == one ? 1 : 0);
  }
}

void Samples::Return(FunctionCallInfo fcinfo) const {
  constexpr int kColumns = 5;
  ReturnSetInfo* result = pg::Guard([&] {
    InitMaterializedSRF(fcinfo, 0);
    auto* info = reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo);
    if (info->setDesc->natts != kColumns) {
      ereport(ERROR,
              (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
               errmsg("outbox.metrics() of the extension is not that of the library"),
               errdetail("It returns %d columns, the library has %d.", info->setDesc->natts, kColumns),
               errhint("ALTER EXTENSION outbox UPDATE, or restart the server after installing the new library.")));
    }
    return info;
  });
  for (const auto& [family, samples] : families_) {
    const Family* of = family;
    for (const Sample& sample : samples) {
      const std::string json = ToJson(sample.labels);
      const char* labels = json.c_str();
      const char* suffix = sample.suffix;
      const double value = sample.value;
      pg::Guard([=] {
        Datum values[kColumns] = {CStringGetTextDatum(psprintf("%s%s", of->name, suffix)),
                                  DirectFunctionCall1(jsonb_in, CStringGetDatum(labels)), Float8GetDatum(value),
                                  CStringGetTextDatum(KindName(of->kind)), CStringGetTextDatum(of->help)};
        bool nulls[kColumns] = {};
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
      });
    }
  }
}

std::string Samples::Text() const {
  std::string text;
  for (const auto& [family, samples] : families_) {
    const std::string name = family->name;
    text += "# TYPE " + name + " " + KindName(family->kind) + "\n";
    if (family->unit[0] != '\0') {
      text += "# UNIT " + name + " " + family->unit + "\n";
    }
    text += "# HELP " + name + " ";
    AppendEscaped(family->help, &text);
    text += "\n";
    for (const Sample& sample : samples) {
      text += name + sample.suffix;
      const char* separator = "{";
      for (const auto& [label, value] : sample.labels) {
        text += separator + std::string(label) + "=\"";
        AppendEscaped(value, &text);
        text += "\"";
        separator = ",";
      }
      text += (sample.labels.empty() ? " " : "} ") + Number(sample.value) + "\n";
    }
  }
  return text + "# EOF\n";
}

}  // namespace outbox::admin
