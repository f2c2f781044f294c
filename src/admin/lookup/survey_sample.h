// The part of a window that a survey did not walk [P]: pages at even distances, whose rows stand for those between.
#pragma once

#include <vector>

#include "admin/lookup/log_estimate.h"
#include "admin/lookup/survey_judge.h"
#include "log/window/window_scan.h"

namespace outbox::admin {

class SurveySample {
 public:
  // `tables`: those of the log, in the order in which a walk takes them. Both outlive it.
  SurveySample(const std::vector<const LogEstimate::Table*>* tables, SurveyJudge* judge)
      : tables_(*tables), judge_(*judge) {}

  // Has the judge see `pages` pages at most of what a walk, which ended at `state`, has left of the window, and adds to
  // its counts what that makes probable. What was walked is not sampled. Throws PgError.
  void Take(const log::WindowBounds& window, const log::ScanState& state, size_t pages);

 private:
  // Blocks of a table.
  struct Range {
    Oid table;
    uint32 begin;
    uint32 end;
  };

  void FindUnwalked(const log::WindowBounds& window, const log::ScanState& state);

  const std::vector<const LogEstimate::Table*>& tables_;
  SurveyJudge& judge_;
  std::vector<Range> ranges_;  // that hold what was not walked
  std::vector<uint32_t> blocks_;
};

}  // namespace outbox::admin
