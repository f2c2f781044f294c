// Values for the arguments of a statement [P]: scalars, and columns of a batch as arrays. Plain code, for use under a
// guard in a transaction; what is allocated lives in the current memory context.
#pragma once

#include <string_view>

#include "base/event.h"
#include "base/status.h"
#include "pg/prelude.h"
#include "pg/statement.h"

namespace outbox::pg {

// bytea is laid out like text: this makes either, byte for byte.
Datum TextDatum(std::string_view bytes);
// Converts UTF-8, as used behind the wall, to the database's encoding. Raises if that lacks a character, which cannot
// happen to text that came from the database.
Datum ServerText(std::string_view text);
// Text from a destination: bytes that the database cannot store become question marks.
Datum ForeignText(std::string_view text);
// jsonb; the headers are not NULL.
Datum HeadersDatum(const HeaderView& headers);
Datum UuidDatum(const Uuid& id);

// Arguments of one statement.
struct Arguments {
  Datum values[Statement::kMaxArguments];
  char nulls[Statement::kMaxArguments];
  int count = 0;

  void Add(Datum value) {
    values[count] = value;
    nulls[count++] = ' ';
  }
  void AddNull() {
    values[count] = Datum(0);
    nulls[count++] = 'n';
  }
  void AddText(std::string_view text) {
    if (IsNull(text)) {
      AddNull();
    } else {
      Add(ServerText(text));
    }
  }
  void AddTime(int64 unix_micros) { Add(TimeDatum(unix_micros)); }
};

// One column of a batch.
struct Column {
  explicit Column(size_t rows)
      : values(static_cast<Datum*>(palloc((rows + 1) * sizeof(Datum)))),
        nulls(static_cast<bool*>(palloc((rows + 1) * sizeof(bool)))) {}
  Datum* values;
  bool* nulls;
  int count = 0;

  void Add(Datum value) {
    values[count] = value;
    nulls[count++] = false;
  }
  void AddNull() {
    values[count] = Datum(0);
    nulls[count++] = true;
  }
  void AddText(std::string_view text) {
    if (IsNull(text)) {
      AddNull();
    } else {
      Add(ServerText(text));
    }
  }
  // The column as an array of one of these element types: text, bytea, jsonb, uuid, int4, int8, timestamptz.
  Datum Array(Oid element) const;
};

}  // namespace outbox::pg
