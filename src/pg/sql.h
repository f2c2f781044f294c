// All that is needed to run SQL [P], with short names for folders that do little else: `using namespace pg::sql`.
#pragma once

#include "pg/statement.h"
#include "pg/statement_arguments.h"
#include "pg/try.h"

namespace outbox::pg::sql {

using pg::Arguments;
using pg::Column;
using pg::ErrorContext;
using pg::ForeignText;
using pg::HeadersDatum;
using pg::ResultBool;
using pg::ResultDatum;
using pg::ResultInt32;
using pg::ResultInt64;
using pg::ResultRow;
using pg::ResultText;
using pg::ResultTime;
using pg::ResultUuid;
using pg::RunStatement;
using pg::ServerText;
using pg::Statement;
using pg::StatusOf;
using pg::TakeRow;
using pg::TextDatum;
using pg::TimeDatum;
using pg::Try;
using pg::TryInTransaction;
using pg::UuidDatum;

}  // namespace outbox::pg::sql
