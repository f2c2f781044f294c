#include "inbox/consumer.h"

#include "format/pattern.h"
#include "pg/rights.h"
#include "pg/writable.h"

extern "C" {
#include "access/xact.h"
#include "access/xlog.h"
#include "tcop/utility.h"
}

namespace outbox::inbox {

namespace {

pg::PatternRights rights("receive_right", format::GlobMatches);

[[noreturn]] void Refuse(const pg::Right* right, const char* consumer) {
  const char* name = GetUserNameFromId(right->role, false);
  ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                  errmsg("role \"%s\" may not receive as consumer \"%s\"", name, consumer),
                  errdetail("It may receive as %s.", pg::PatternRights::Listed(right)),
                  errhint("The owner of the extension may say outbox.grant_receive(%s, consumers => ...) with further "
                          "patterns, or without consumers for all.",
                          pg::RoleArgument(name))));
}

// Not empty, no blank at either end, no control character.
bool IsName(const text* name, int most) {
  const char* bytes = VARDATA_ANY(name);
  const int size = static_cast<int>(VARSIZE_ANY_EXHDR(name));
  bool good = size > 0 && size <= most && bytes[0] != ' ' && bytes[size - 1] != ' ';
  for (int i = 0; good && i < size; i++) {
    good = static_cast<unsigned char>(bytes[i]) >= ' ' && bytes[i] != 0x7F;
  }
  return good;
}

int WhatNameHas(const text* name) {
  return errdetail("It has %d bytes; blanks at its ends and control characters are refused.",
                   static_cast<int>(VARSIZE_ANY_EXHDR(name)));
}

}  // namespace

void RefuseNull(bool null, const char* function, const char* what) {
  if (null) {
    ereport(ERROR,
            (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s of outbox.%s() must not be null", what, function),
             errdetail("An answer of NULL would be taken for \"not new\", and the event would be passed over."),
             errhint("Is the header or field missing that it is taken from?")));
  }
}

void RefuseNullName(bool null, const char* function, const char* what, const char* example) {
  if (null) {
    ereport(ERROR,
            (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s of outbox.%s() must not be null", what, function),
             errdetail("Nothing was received under that."), errhint("For example SELECT %s.", example)));
  }
}

void CheckConsumerName(const text* consumer) {
  if (!IsName(consumer, kLongestConsumer)) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("consumer must be a name of 1 to %d bytes", kLongestConsumer), WhatNameHas(consumer),
                    errhint("Give each consumer a name of its own that it keeps, such as 'billing'.")));
  }
}

void CheckStreamName(const text* stream) {
  if (!IsName(stream, kLongestStream)) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("stream must be a name of 1 to %d bytes", kLongestStream), WhatNameHas(stream),
                    errhint("Pass what the positions are counted in, such as topic and partition: 'orders/0'.")));
  }
}

void CheckConsumerRight(const text* consumer) {
  CheckConsumerName(consumer);
  const pg::Right* right = rights.Of(GetUserId());
  if (right->limited) {
    const char* name = text_to_cstring(consumer);
    if (!rights.Allows(right, name)) {
      Refuse(right, name);
    }
  }
}

void CheckConsumer(const text* consumer, const char* function) {
  if (IsInParallelMode()) {
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_TRANSACTION_STATE), errmsg("cannot receive an event during a parallel operation"),
             errdetail("Parallel workers may not write, and outbox.%s() writes a mark.", function),
             errhint("Mark functions that receive PARALLEL UNSAFE, which is the default.")));
  }
  CheckConsumerRight(consumer);
  if (RecoveryInProgress()) {
    ereport(ERROR, (errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION), errmsg("cannot receive an event on a standby"),
                    errdetail("outbox.%s() writes a mark, in the transaction that handles the event.", function),
                    errhint("%s", pg::RecoveryHint("Send it to the primary."))));
  }
  PreventCommandIfReadOnly(psprintf("outbox.%s()", function));
}

void BeOnDiskAtCommit(bool changed) {
  if (changed) {
    ForceSyncCommit();
  }
}

}  // namespace outbox::inbox
