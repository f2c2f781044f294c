// SQL from C++ code that owns things [P], text in and text out. For administration only: nothing here is fast.
//
// Statements run as the owner of the extension's tables, with search_path pinned to pg_catalog, for every caller: a
// role that was granted EXECUTE on create_route() needs no right on the tables behind it. The caller's own rights have
// to be checked before RunSql() (GetUserId() is the caller again afterwards). Statements are constants with $n
// parameters of type text, cast where they are used; every name in them is schema-qualified.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pg/guard.h"
#include "pg/owner.h"
#include "pg/schemas.h"

namespace outbox::admin {

using Cell = std::optional<std::string>;  // nothing: NULL
using Row = std::vector<Cell>;

enum class Access : uint8_t {
  kRead,    // under the snapshot of the calling statement; also on a standby
  kWrite,   // under a new snapshot, which sees what earlier statements of this function did
  kLatest,  // reads only, what is committed by now: the snapshot of a transaction in REPEATABLE READ may be an hour old
};

// Calls it with what is committed by now as the active snapshot, which Access::kRead reads under.
template <typename Look>
auto AtLatestSnapshot(const Look& look) {
  pg::Guard([] { PushActiveSnapshot(GetLatestSnapshot()); });
  auto seen = look();
  pg::Guard([] { PopActiveSnapshot(); });
  return seen;
}

using Plan = pg::Plan;

// Whether the extension is there, with all these tables (one of another version may lack some), and not just being
// made. Throws PgError.
bool HasTables(std::span<const char* const> tables);

// The version of the extension, where it is not the library's: what its tables are is not known then. palloc'd;
// nullptr: they are equal, or there is none, or it is just being made or updated. Plain.
const char* OtherVersion();

// The columns are returned in their types' text form. Throws PgError.
std::vector<Row> RunSql(Access access, const char* sql, const std::vector<Cell>& params = {}, Plan plan = Plan::kUsual);

// Parameters of a statement, all of type text, as SPI takes them. They are made in the current memory context: fill it
// under WithSpiAsOwner(), for what is around before may be the memory of a procedure, which lives through all of its
// batches. Plain.
struct TextParams {
  static constexpr int kMost = 16;
  Oid types[kMost];
  Datum values[kMost];
  char nulls[kMost];
  int count = 0;

  void Add(const char* text);  // nullptr: NULL
};

// A constant query that is asked again and again: planned once per session, and now and then anew, because tables grow.
struct PlannedQuery {
  const char* sql;
  Plan how = Plan::kUsual;
  // One of our tables that has to have rows for the query to have some: it is not run where that table has no page.
  const char* rows_of = nullptr;
  SPIPlanPtr plan = nullptr;
  int uses = 0;  // of the plan
};
// As RunSql() with Access::kRead; with as many parameters each time.
std::vector<Row> RunPlanned(PlannedQuery* query, const std::vector<Cell>& params = {});
// The same; `take` reads SPI's result. It is plain, but for what it fills.
void RunPlanned(PlannedQuery* query, const std::vector<Cell>& params, const std::function<void()>& take);

// Raises an error if a function's SQL declares another number of columns than the library returns. Plain.
void CheckColumns(int declared, int returned);

// `work` as the owner and with that plan. Plain, and so is `work`.
template <typename Work>
void AsOwner(Work&& work, Plan plan = Plan::kUsual) {
  pg::AsOwner(pg::OwnerOf(pg::FindOurRelation("route")), pg::StatementSettings(plan), work);
}

// Of errors in our own statements: what they name is missing where objects and library are of two versions, and what
// they read may be damaged or away.
void HintAtCause(void* unused);

// The same, with SPI connected.
template <typename Work>
void WithSpiAsOwner(Plan plan, Work&& work) {
  AsOwner(
      [&work] {
        if (SPI_connect() != SPI_OK_CONNECT) {
          ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not connect to SPI")));
        }
        ErrorContextCallback told = {error_context_stack, HintAtCause, nullptr};
        error_context_stack = &told;
        work();
        error_context_stack = told.previous;
        SPI_finish();
      },
      plan);
}

// A set-returning function's answer, row by row. Begin() first; both throw PgError.
class ResultSet {
 public:
  explicit ResultSet(FunctionCallInfo fcinfo) : fcinfo_(fcinfo) {}
  void Begin();
  void Add(const Row& row);  // as many cells as columns, in the types' input form

 private:
  FunctionCallInfo fcinfo_;
  ReturnSetInfo* result_ = nullptr;
  AttInMetadata* input_ = nullptr;
};

// Cells of values. Input form of timestamptz, whatever the session's DateStyle; the cells are NULL for 0.
std::string UnixMicrosText(int64 micros);
Cell UnixMicrosCell(int64 micros);
Cell TimestampCell(TimestampTz at);
// As UnixMicrosText(); the least and the greatest number are the times without an end.
std::string TimeText(int64 micros);
// NULL for an empty text.
Cell TextCell(const char* text);
// The number that a cell says; NULL is 0.
int64 Number(const Cell& cell);

// As it is typed: in quotes, with what is in it quoted.
std::string Literal(const std::string& text);
// A name as it is typed: in double quotes where it needs them.
std::string Identifier(const std::string& name);

// An argument in text form; nothing: NULL. `type` is the argument's declared type.
Cell TextArgument(FunctionCallInfo fcinfo, int number);
// The elements of an argument of type text[], which has to be a list; nothing: NULL.
std::optional<std::vector<Cell>> TextArrayArgument(FunctionCallInfo fcinfo, int number, const char* name);
// The elements in the form that a cast to text[] takes.
std::string TextArrayLiteral(const std::vector<std::string>& elements);
// As TextArrayLiteral, for any type's text forms, NULLs included.
std::string ArrayLiteral(const std::vector<Cell>& elements);
std::string ArrayLiteral(const std::vector<int64>& numbers);

}  // namespace outbox::admin
