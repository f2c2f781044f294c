#include "admin/common/query.h"

#include <cstdlib>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "base/version.h"
#include "pg/list_argument.h"
#include "pg/own_extension.h"
#include "pg/schemas.h"
#include "pg/transaction.h"
#include "pg/trouble_hints.h"

extern "C" {
#include "access/table.h"
#include "catalog/namespace.h"
#include "commands/extension.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
}

namespace outbox::admin {

namespace {

// Both are plain, except for the rows they fill, which are declared outside of the guard.
void TakeRows(std::vector<Row>* rows) {
  if (SPI_tuptable == nullptr) {
    return;
  }
  TupleDesc columns = SPI_tuptable->tupdesc;
  // Looked up once for each column, and each row taken apart once: SPI_getvalue() does both for each cell.
  auto* outputs = static_cast<FmgrInfo*>(palloc(sizeof(FmgrInfo) * static_cast<size_t>(Max(columns->natts, 1))));
  auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * static_cast<size_t>(Max(columns->natts, 1))));
  auto* nulls = static_cast<bool*>(palloc(static_cast<size_t>(Max(columns->natts, 1))));
  for (int c = 0; c < columns->natts; c++) {
    Oid output = InvalidOid;
    bool varlena = false;
    getTypeOutputInfo(TupleDescAttr(columns, c)->atttypid, &output, &varlena);
    fmgr_info(output, &outputs[c]);
  }
  for (uint64 r = 0; r < SPI_tuptable->numvals; r++) {
    rows->emplace_back(columns->natts);
    heap_deform_tuple(SPI_tuptable->vals[r], columns, values, nulls);
    for (int c = 0; c < columns->natts; c++) {
      if (!nulls[c]) {
        const char* text = OutputFunctionCall(&outputs[c], values[c]);
        rows->back()[c] = text;
      }
    }
  }
}

void Execute(Access access, Plan plan, const char* sql, int count, const char* const* params, std::vector<Row>* rows) {
  WithSpiAsOwner(plan, [&] {
    TextParams texts;
    for (int i = 0; i < count; i++) {
      texts.Add(params[i]);
    }
    int code =
        SPI_execute_with_args(sql, texts.count, texts.types, texts.values, texts.nulls, access == Access::kRead, 0);
    if (code < 0) {
      ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("SPI failed: %s", SPI_result_code_string(code))));
    }
    TakeRows(rows);
  });
}

}  // namespace

bool HasTables(std::span<const char* const> tables) {
  return pg::Guard([tables] {
    if (creating_extension || !OidIsValid(get_extension_oid("outbox", true))) {
      return false;
    }
    for (const char* table : tables) {
      if (!OidIsValid(pg::FindOurRelation(table))) {
        return false;
      }
    }
    return true;
  });
}

const char* OtherVersion() {
  const char* version = creating_extension ? nullptr : pg::ReadOwnExtension().version;
  return version == nullptr || strcmp(version, kVersion) == 0 ? nullptr : version;
}

void HintAtCause(void*) {
  const int code = geterrcode();
  if (pg::IsUnreadable(unpack_sql_state(code))) {
    errhint("%s", pg::kUnreadableHint);
  }
  if (code == ERRCODE_UNDEFINED_TABLE || code == ERRCODE_UNDEFINED_COLUMN || code == ERRCODE_UNDEFINED_FUNCTION ||
      code == ERRCODE_INVALID_SCHEMA_NAME) {
    errhint(
        "Where outbox.version() shows two versions: ALTER EXTENSION outbox UPDATE, or restart the server after "
        "installing the new library.");
  }
}

std::vector<Row> RunSql(Access access, const char* sql, const std::vector<Cell>& params, Plan plan) {
  if (access == Access::kLatest) {
    return AtLatestSnapshot([&] { return RunSql(Access::kRead, sql, params, plan); });
  }
  std::vector<Row> rows;
  const char* texts[TextParams::kMost] = {};
  for (size_t i = 0; i < params.size(); i++) {
    texts[i] = params[i] ? params[i]->c_str() : nullptr;
  }
  pg::Guard([&] { Execute(access, plan, sql, static_cast<int>(params.size()), texts, &rows); });
  return rows;
}

namespace {

// Plain. Where there is no such table the query is to say so.
bool HasPages(const char* table) {
  const Oid oid = pg::FindOurRelation(table);
  if (!OidIsValid(oid)) {
    return true;
  }
  Relation relation = table_open(oid, AccessShareLock);
  const bool has = !RELKIND_HAS_STORAGE(relation->rd_rel->relkind) || RelationGetNumberOfBlocks(relation) > 0;
  table_close(relation, NoLock);
  return has;
}

// Plain.
void PrepareAgain(PlannedQuery* query, int params) {
  constexpr int kUses = 200;
  if (query->plan != nullptr && query->uses++ < kUses) {
    return;
  }
  Oid types[TextParams::kMost];
  std::fill_n(types, TextParams::kMost, TEXTOID);
  SPIPlanPtr plan = SPI_prepare_cursor(query->sql, params, types, CURSOR_OPT_GENERIC_PLAN);
  if (plan == nullptr || SPI_keepplan(plan) != 0) {
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("SPI failed: %s", SPI_result_code_string(SPI_result))));
  }
  SPIPlanPtr before = query->plan;
  query->plan = plan;
  query->uses = 0;
  if (before != nullptr) {
    SPI_freeplan(before);
  }
}

}  // namespace

void TextParams::Add(const char* text) {
  types[count] = TEXTOID;
  nulls[count] = text == nullptr ? 'n' : ' ';
  values[count++] = text == nullptr ? static_cast<Datum>(0) : CStringGetTextDatum(text);
}

std::vector<Row> RunPlanned(PlannedQuery* query, const std::vector<Cell>& params) {
  std::vector<Row> rows;
  RunPlanned(query, params, [&rows] { TakeRows(&rows); });
  return rows;
}

void RunPlanned(PlannedQuery* query, const std::vector<Cell>& params, const std::function<void()>& take) {
  pg::Guard([&] {
    if (query->rows_of != nullptr && !HasPages(query->rows_of)) {
      return;
    }
    WithSpiAsOwner(query->how, [&] {
      PrepareAgain(query, static_cast<int>(params.size()));
      TextParams texts;
      for (const Cell& param : params) {
        texts.Add(param ? param->c_str() : nullptr);
      }
      const int code = SPI_execute_plan(query->plan, texts.values, texts.nulls, true, 0);
      if (code < 0) {
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("SPI failed: %s", SPI_result_code_string(code))));
      }
      take();
    });
  });
}

void CheckColumns(int declared, int returned) {
  if (declared != returned) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("a function of the extension is not that of the library"),
                    errdetail("Its SQL declares %d columns, the library, of version %s, returns %d.", declared,
                              kVersion, returned),
                    errhint("ALTER EXTENSION outbox UPDATE, or restart the server after installing the new library.")));
  }
}

void ResultSet::Begin() {
  pg::Guard([&] {
    InitMaterializedSRF(fcinfo_, 0);
    result_ = reinterpret_cast<ReturnSetInfo*>(fcinfo_->resultinfo);
    input_ = TupleDescGetAttInMetadata(result_->setDesc);
  });
}

void ResultSet::Add(const Row& row) {
  std::vector<char*> texts(row.size());
  for (size_t i = 0; i < row.size(); i++) {
    texts[i] = row[i] ? const_cast<char*>(row[i]->c_str()) : nullptr;
  }
  char** values = texts.data();
  const int given = static_cast<int>(row.size());
  pg::Guard([&] {
    CheckColumns(input_->tupdesc->natts, given);  // else it would read behind the last one
    tuplestore_puttuple(result_->setResult, BuildTupleFromCStrings(input_, values));
  });
}

std::string UnixMicrosText(int64 micros) {
  int64 fraction = micros % USECS_PER_SEC;
  time_t seconds = static_cast<time_t>(micros / USECS_PER_SEC);
  if (fraction < 0) {
    fraction += USECS_PER_SEC;
    seconds--;
  }
  struct tm utc = {};
  gmtime_r(&seconds, &utc);
  char text[64];
  std::snprintf(text, sizeof(text), "%04d-%02d-%02d %02d:%02d:%02d.%06d+00", utc.tm_year + 1900, utc.tm_mon + 1,
                utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, static_cast<int>(fraction));
  return text;
}

std::string TimeText(int64 micros) {
  return micros == PG_INT64_MIN ? "-infinity" : micros == PG_INT64_MAX ? "infinity" : UnixMicrosText(micros);
}

Cell UnixMicrosCell(int64 micros) {
  return micros == 0 ? Cell() : UnixMicrosText(micros);
}

Cell TimestampCell(TimestampTz at) {
  return at == 0 ? Cell() : UnixMicrosCell(at + kPgEpochMicros);
}

Cell TextCell(const char* text) {
  return text[0] == '\0' ? Cell() : Cell(text);
}

int64 Number(const Cell& cell) {
  return cell ? std::strtoll(cell->c_str(), nullptr, 10) : 0;
}

namespace {

// Plain.
Oid TypeOfArgument(FunctionCallInfo fcinfo, int number) {
  const Oid given = get_fn_expr_argtype(fcinfo->flinfo, number);
  if (OidIsValid(given)) {
    return given;
  }
  Oid* declared = nullptr;  // a call by the protocol's own message has no expression
  int count = 0;
  (void)get_func_signature(fcinfo->flinfo->fn_oid, &declared, &count);
  return number < count ? declared[number] : InvalidOid;
}

}  // namespace

Cell TextArgument(FunctionCallInfo fcinfo, int number) {
  if (PG_ARGISNULL(number)) {
    return std::nullopt;
  }
  const char* text = pg::Guard([&]() -> const char* {
    Oid output = InvalidOid;
    bool varlena = false;
    getTypeOutputInfo(TypeOfArgument(fcinfo, number), &output, &varlena);
    return OidOutputFunctionCall(output, PG_GETARG_DATUM(number));
  });
  return Cell(text);
}

std::optional<std::vector<Cell>> TextArrayArgument(FunctionCallInfo fcinfo, int number, const char* name) {
  if (PG_ARGISNULL(number)) {
    return std::nullopt;
  }
  std::vector<Cell> elements;
  pg::Guard([&] {
    Datum* values = nullptr;
    bool* nulls = nullptr;
    int count = 0;
    ArrayType* array = PG_GETARG_ARRAYTYPE_P(number);
    pg::RequireList(array, name);
    deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &count);
    for (int i = 0; i < count; i++) {
      const char* element = nulls[i] ? nullptr : TextDatumGetCString(values[i]);
      elements.emplace_back();
      if (element != nullptr) {
        elements.back() = element;
      }
    }
  });
  return elements;
}

namespace {

void AppendElement(const std::string& element, std::string* literal) {
  *literal += '"';
  for (char c : element) {
    if (c == '"' || c == '\\') {
      *literal += '\\';
    }
    *literal += c;
  }
  *literal += '"';
}

}  // namespace

std::string TextArrayLiteral(const std::vector<std::string>& elements) {
  std::string literal = "{";
  for (const std::string& element : elements) {
    literal += literal.size() == 1 ? "" : ",";
    AppendElement(element, &literal);
  }
  return literal + "}";
}

std::string Literal(const std::string& text) {
  return pg::Guard([&text]() -> const char* { return quote_literal_cstr(text.c_str()); });
}

std::string Identifier(const std::string& name) {
  return pg::Guard([&name]() -> const char* { return quote_identifier(name.c_str()); });
}

std::string ArrayLiteral(const std::vector<Cell>& elements) {
  std::string literal = "{";
  for (const Cell& element : elements) {
    literal += literal.size() == 1 ? "" : ",";
    if (element) {
      AppendElement(*element, &literal);
    } else {
      literal += "NULL";
    }
  }
  return literal + "}";
}

std::string ArrayLiteral(const std::vector<int64>& numbers) {
  std::string literal = "{";
  for (int64 number : numbers) {
    literal += literal.size() == 1 ? "" : ",";
    literal += std::to_string(number);
  }
  return literal + "}";
}

}  // namespace outbox::admin
