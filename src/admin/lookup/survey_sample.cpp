#include "admin/lookup/survey_sample.h"

#include "pg/guard.h"

namespace outbox::admin {

// Plain, but for what it fills.
void SurveySample::FindUnwalked(const log::WindowBounds& window, const log::ScanState& state) {
  ranges_.clear();
  for (size_t i = state.log_table; i < tables_.size(); i++) {
    const LogEstimate::Table& table = *tables_[i];
    const bool here = i == state.log_table;
    if (!table.indexed) {
      ranges_.push_back({table.oid, here ? static_cast<uint32>(state.row) : 0, table.blocks});
      continue;
    }
    if (here && state.part > 0) {
      continue;
    }
    const bool within = here && state.inside;
    const uint64 from = within ? state.xid + 1 : window.xids.begin;
    LogBegin begin = {};
    if (table.least_xid >= from && table.least_xid < window.xids.end) {
      begin.found = true;  // all of it
    } else {
      begin = BeginInLog(table, from);
    }
    if (!begin.found && !within) {
      continue;
    }
    // What follows the last row that was walked: of its transaction, which may be a large one, or of later ones.
    uint32 block = begin.found ? begin.block : table.blocks;
    if (within) {
      block = Min(block, static_cast<uint32>(state.row >> 16) + 1);
      if (block >= table.blocks) {
        continue;
      }
    }
    const LogBegin end = BeginInLog(table, window.xids.end);
    ranges_.push_back({table.oid, block, Max(end.found ? end.block : table.blocks, block + 1)});
  }
}

void SurveySample::Take(const log::WindowBounds& window, const log::ScanState& state, size_t pages) {
  pg::Guard([&] { FindUnwalked(window, state); });
  uint64 all = 0;
  for (const Range& range : ranges_) {
    all += range.end - range.begin;
  }
  if (all == 0 || pages == 0) {
    return;
  }
  const uint64 taken = Min(static_cast<uint64>(pages), all);
  // Rows of transactions that were walked may lie between those that were not: they are counted already.
  log::WindowBounds unwalked = window;
  if (state.part == 0 && state.inside) {
    unwalked.from.xmax = Max(unwalked.from.xmax, state.xid);
  }
  const Oid walked_in = state.log_table < tables_.size() ? tables_[state.log_table]->oid : InvalidOid;
  judge_.sampling = true;
  uint64 before = 0;  // blocks of the ranges before
  uint64 next = 0;    // page of the sample
  for (const Range& range : ranges_) {
    blocks_.clear();
    const uint64 size = range.end - range.begin;
    for (; next < taken; next++) {
      const uint64 at = (next * all + all / 2) / taken;
      if (at >= before + size) {
        break;
      }
      blocks_.push_back(range.begin + static_cast<uint32>(at - before));
    }
    before += size;
    if (!blocks_.empty()) {
      const log::WindowBounds& of = range.table == walked_in ? unwalked : window;
      pg::Guard([&] { log::ScanPages(of, range.table, blocks_, &judge_); });
    }
  }
  for (SurveyCount& count : judge_.counts) {
    count.estimated += static_cast<double>(count.sampled) * static_cast<double>(all) / static_cast<double>(taken);
    count.sampled = 0;
  }
}

}  // namespace outbox::admin
