#include "admin/lookup/option_list.h"

#include "pg/encoding.h"
#include "sink/kind.h"

extern "C" {
#include "commands/defrem.h"
#include "nodes/parsenodes.h"
}

namespace outbox::admin {

namespace {

// Owns nothing when it has returned: what follows may raise.
bool IsText(const sink::SinkKind* kind, const char* name) {
  if (kind == nullptr) {
    return false;
  }
  const sink::OptionRule* rule = sink::FindOption(*kind, sink::CanonicalOption(*kind, name));
  return rule != nullptr && rule->type != sink::ValueType::kPath && rule->type != sink::ValueType::kSocket;
}

}  // namespace

void AppendOptions(const List* options, const sink::SinkKind* kind, sink::OptionList* out) {
  const ListCell* cell = nullptr;
  foreach (cell, options) {
    DefElem* option = static_cast<DefElem*>(lfirst(cell));
    const char* value = defGetString(option);
    const char* utf8 = IsText(kind, option->defname) ? pg::TryUtf8(value) : nullptr;
    out->emplace_back(option->defname, utf8 == nullptr ? value : utf8);
  }
}

const char* NotInUtf8(const List* options, const sink::SinkKind* kind) {
  const ListCell* cell = nullptr;
  foreach (cell, options) {
    DefElem* option = static_cast<DefElem*>(lfirst(cell));
    if (IsText(kind, option->defname) && pg::TryUtf8(defGetString(option)) == nullptr) {
      return option->defname;
    }
  }
  return nullptr;
}

}  // namespace outbox::admin
