// Samples of metrics, in the words of OpenMetrics, as rows and as text [P].
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "pg/prelude.h"

namespace outbox::admin {

enum class SampleKind : unsigned char { kCounter, kGauge, kHistogram, kStateSet, kInfo };

// A family of samples, with the name that they have in common. Units are the base units, at the end of the name.
struct Family {
  const char* name;  // without _total and _info
  SampleKind kind;
  const char* unit;  // "": none
  const char* help;
};

using Labels = std::vector<std::pair<const char*, std::string>>;

// OpenMetrics has its own media type; what node_exporter reads from files, and promtool, is the older text format.
enum class TextFormat : unsigned char { kOpenMetrics, kPrometheus };

// All samples of one answer. Those of a family stay together, in the order in which families came first. There may be
// ten thousand of them, several times a minute: a sample is a few pointers, and labels that many of them have are kept
// once.
class Samples {
 public:
  // Labels for samples of this answer; names of labels outlive it.
  const Labels* Keep(Labels labels);
  const Labels* none() const { return &none_; }

  // `family` outlives it.
  void Add(const Family& family, const Labels* labels, double value);
  // With one label more, whose name and value outlive it.
  void Add(const Family& family, const Labels* labels, const char* label, const char* of_label, double value);
  // The buckets, sum and count of a histogram, in seconds.
  void AddHistogram(const Family& family, const Labels* labels, const LatencyHistogram& histogram);
  // One sample for each state, under the family's name as label. `states` are constants.
  void AddStates(const Family& family, const Labels* labels, const std::vector<const char*>& states,
                 const std::string& state);

  // Makes one sample, the sum, of those that have these labels, by address, and all else in common.
  void SumUp(const Labels* labels);

  // As rows (name, labels, value, kind, help). Throws pg::PgError.
  void Return(FunctionCallInfo fcinfo) const;
  // In the database's encoding, without an end of line after the last one: psql adds one.
  std::string Text(TextFormat format) const;

 private:
  struct Sample {
    const char* suffix;
    const Labels* labels;
    const char* label;     // one label more; nullptr: none
    const char* of_label;  // its value
    double value;
  };
  struct FamilySamples {
    const Family* family;
    std::vector<Sample> samples;
  };

  FamilySamples* Of(const Family& family);

  std::deque<Labels> kept_;
  const Labels none_{};  // clang wants it said
  std::vector<FamilySamples> families_;
};

}  // namespace outbox::admin
