#include "pg/entry.h"

#include <new>

#include "pg/log_line.h"
#include "pg/trouble_hints.h"

extern "C" {
#include "commands/trigger.h"
}

namespace outbox::pg {

namespace {

// Copies without raising: an ERROR here would jump out of a catch block.
char* CopyOrNull(const std::string& text) noexcept {
  if (text.empty()) {
    return nullptr;
  }
  char* copy = static_cast<char*>(MemoryContextAllocExtended(CurrentMemoryContext, text.size() + 1, MCXT_ALLOC_NO_OOM));
  if (copy != nullptr) {
    memcpy(copy, text.c_str(), text.size() + 1);
  }
  return copy;
}

// What PendingError holds is not const.
char out_of_memory[] = "out of memory";

constexpr const char* kNotForUsers = "Drop the trigger: those that outbox needs are there.";

std::string NameOf(const TriggerData& trigger) {
  return std::string("Trigger \"") + trigger.tg_trigger->tgname + "\"";
}

[[noreturn]] void RefuseUse(const TriggerUse& use, const std::string& detail) {
  throw UserError{ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED, std::string(use.function) + " is not used as it must be",
                  detail, use.usage != nullptr ? "Use it so: " + std::string(use.usage) + "." : kNotForUsers};
}

}  // namespace

PendingError DescribeCurrentException() noexcept {
  PendingError error;
  error.sqlstate = ERRCODE_INTERNAL_ERROR;
  try {
    throw;
  } catch (const PgError& e) {
    error.rethrow = e.data();
  } catch (const UserError& e) {
    error.sqlstate = e.sqlstate;
    error.message = CopyOrNull(e.message);
    error.detail = CopyOrNull(e.detail);
    error.hint = CopyOrNull(e.hint);
  } catch (const std::bad_alloc&) {
    error.sqlstate = ERRCODE_OUT_OF_MEMORY;
    error.message = out_of_memory;
  } catch (const std::exception& e) {
    try {
      error.message = CopyOrNull(e.what());
    } catch (...) {
    }
  } catch (...) {
  }
  return error;
}

void Report(int level, const char* who, const PendingError& error) {
  const ErrorData* data = error.rethrow;
  const int sqlstate = data != nullptr ? data->sqlerrcode : error.sqlstate;
  const char* message = data != nullptr ? data->message : error.message;
  const char* detail = data != nullptr ? data->detail : error.detail;
  const char* hint = data != nullptr ? data->hint : error.hint;
  if (hint == nullptr && message != nullptr) {
    hint = ServersHint(unpack_sql_state(sqlstate), message);
  }
  char* context = data != nullptr && data->context != nullptr ? pstrdup(data->context) : nullptr;
  if (MayTellOfRow(sqlstate)) {
    message = kRowTold;
    detail = hint = context = nullptr;
  }
  // The error was raised in this process as well, whose own line would stand there twice.
  if (char* own = context == nullptr ? nullptr : strstr(context, kLogHead); own != nullptr) {
    *(own == context ? own : own - 1) = '\0';
  }
  ereport(level, (errcode(sqlstate), errmsg("%s: %s", who, message != nullptr ? message : "internal error"),
                  detail != nullptr ? errdetail_internal("%s", detail) : 0, hint != nullptr ? errhint("%s", hint) : 0,
                  context != nullptr && context[0] != '\0' ? errcontext_msg("%s", context) : 0,
                  LogEvent("error", {{"sqlstate", unpack_sql_state(sqlstate)}})));
}

void Raise(const PendingError& error) {
  if (error.rethrow != nullptr) {
    ReThrowError(error.rethrow);
  }
  ereport(ERROR,
          (errcode(error.sqlstate), errmsg("%s", error.message != nullptr ? error.message : "internal error in outbox"),
           error.detail != nullptr ? errdetail("%s", error.detail) : 0,
           error.hint != nullptr ? errhint("%s", error.hint) : 0));
  pg_unreachable();
}

TriggerData* TriggerOf(FunctionCallInfo fcinfo, const TriggerUse& use) {
  if (!CALLED_AS_TRIGGER(fcinfo)) {
    RefuseUse(use, "It was not called by a trigger.");
  }
  auto* trigger = reinterpret_cast<TriggerData*>(fcinfo->context);
  RequireUse(*trigger, use);
  return trigger;
}

void RequireUse(const TriggerData& trigger, const TriggerUse& use) {
  if (!use.fits(trigger)) {
    RefuseUse(use, NameOf(trigger) + " is not " + use.form + ".");
  }
}

void RefuseRelation(const TriggerData& trigger, const TriggerUse& use, const char* relation) {
  throw UserError{ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED, std::string(use.function) + " belongs to " + relation,
                  NameOf(trigger) + " is on \"" + RelationGetRelationName(trigger.tg_relation) + "\".", kNotForUsers};
}

}  // namespace outbox::pg
