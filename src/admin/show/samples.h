// Samples of metrics, in the words of OpenMetrics, as rows and as text [P].
#pragma once

#include <map>
#include <memory>
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

// All samples of one answer. Those of a family stay together, in the order in which families came first.
class Samples {
 public:
  // `family` and the names of labels outlive it.
  void Add(const Family& family, const Labels& labels, double value);
  // The buckets, sum and count of a histogram, in seconds.
  void AddHistogram(const Family& family, const Labels& labels, const LatencyHistogram& histogram);
  // One sample for each state.
  void AddStates(const Family& family, const Labels& labels, const std::vector<const char*>& states,
                 const std::string& state);

  // As rows (name, labels, value, kind, help). Throws pg::PgError.
  void Return(FunctionCallInfo fcinfo) const;
  // As OpenMetrics text, in the database's encoding.
  std::string Text() const;

 private:
  struct Sample {
    const char* suffix;
    Labels labels;
    double value;
  };
  std::vector<std::pair<const Family*, std::vector<Sample>>> families_;
  std::vector<Sample>* Of(const Family& family);
};

}  // namespace outbox::admin
