// How this folder runs SQL [P]: what src/pg has for all, by its short names.
#pragma once

#include "pg/arguments.h"
#include "pg/attempt.h"
#include "pg/statement.h"

namespace outbox::log {

using pg::Arguments;
using pg::Column;
using pg::ErrorContext;
using pg::ForeignText;
using pg::HeadersDatum;
using pg::ResultDatum;
using pg::ResultText;
using pg::RunStatement;
using pg::ServerText;
using pg::Statement;
using pg::StatusOf;
using pg::TextDatum;
using pg::TimeDatum;
using pg::Try;
using pg::TryInTransaction;
using pg::UuidDatum;

}  // namespace outbox::log
