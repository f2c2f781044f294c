// SQL of the inbox [P]: run with the rights of the owner of its tables, whoever calls. Plain.
#pragma once

#include "pg/statement.h"

namespace outbox::inbox {

struct Caller {
  Oid user;
  int security_context;
};
// SPI is connected in between. After an error the end of the (sub)transaction gives the caller's rights back.
Caller BecomeOwner();
void BecomeCaller(const Caller& caller);

// A statement of the inbox names nothing without its schema, operators and functions of the server too: it is the same
// under any search_path. Returns the number of rows. In a transaction that keeps one snapshot it runs under that, as a
// statement of the caller's would; `newest`: under one that sees all that is committed. nulls: as for SPI.
uint64 Run(pg::Statement* statement, Datum* values, bool newest = false, const char* nulls = nullptr);

}  // namespace outbox::inbox
