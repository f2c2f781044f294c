// Is the extension here, and does this database's outbox belong here? [P] Plain code, inside a transaction.
#pragma once

#include "pg/prelude.h"

namespace outbox::pg {

enum class Presence : uint8 {
  kAbsent,        // no extension (or not yet, or no longer)
  kUnused,        // no route was ever made and nothing emitted: nothing to keep, and perhaps a restore is under way
  kOtherVersion,  // the extension's version is not the library's
  kForeign,       // a copy: restored, cloned, or started under another outbox.instance; silent until outbox.adopt()
  kHere,
};

struct Standing {
  Presence presence;
  Oid owner;         // of outbox.log; InvalidOid when absent
  char version[64];  // of the extension
};

Standing FindStanding();

// The first create_route() or emit() makes the outbox belong to this server and database; afterwards, and in a copy, it
// changes nothing. Connects to SPI by itself, and writes with the rights of the table's owner, whoever calls.
void SettleIdentity();

// Whose transaction ids are these: system identifier and oid of this database, palloc'd; as in outbox.lane.home.
char* HomeText();

// Does an enabled subscription of this database bring tables of outbox? Inside a transaction with SPI connected. Plain.
bool SubscribesToOutbox();

// For SPI results: column `number` of row 0 (or `row`); NULL comes back as the default.
int64 SpiInt64(int row, int number, int64 fallback);

}  // namespace outbox::pg
