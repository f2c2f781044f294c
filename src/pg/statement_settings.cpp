#include "pg/statement_settings.h"

extern "C" {
#include "utils/guc.h"
}

namespace outbox::pg {

std::span<const PinnedSetting> StatementSettings(Plan plan) {
  static constexpr PinnedSetting kSettings[] = {
      // Views would be refused. (Minor releases of August 2024 brought it, so the server that runs is asked.)
      {"restrict_nonsystem_relation_kind", ""},
      {"search_path", kSearchPath},
      {"datestyle", "ISO"},  // others write time zones that cannot be read back
      {"intervalstyle", "postgres"},
      {"array_nulls", "on"},
      {"standard_conforming_strings", "on"},
      {"transform_null_equals", "off"},
      // Texts of names and values are compared and kept.
      {"quote_all_identifiers", "off"},
      {"extra_float_digits", "1"},
      {"bytea_output", "hex"},
      // To compile one takes longer than to run it: their costs are estimates for functions, and for what is turned off
      // here and used all the same.
      {"jit", "off"},
      // kIndexOrder.
      {"enable_seqscan", "off"},
      {"enable_bitmapscan", "off"},
      {"max_parallel_workers_per_gather", "0"},
      // kByKey, besides those.
      {"enable_hashjoin", "off"},
      {"enable_mergejoin", "off"}};
  static const size_t unknown = GetConfigOption(kSettings[0].name, true, false) == nullptr ? 1 : 0;
  const size_t usual = 11 - unknown;
  const size_t index_order = 14 - unknown;
  const std::span<const PinnedSetting> all = std::span<const PinnedSetting>(kSettings).subspan(unknown);
  return plan == Plan::kUsual ? all.first(usual) : plan == Plan::kIndexOrder ? all.first(index_order) : all;
}

int Pin(std::span<const PinnedSetting> settings) {
  const int level = NewGUCNestLevel();
  for (const PinnedSetting& setting : settings) {
    (void)set_config_option(setting.name, setting.value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
  }
  return level;
}

}  // namespace outbox::pg
