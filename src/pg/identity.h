// Whether the extension is installed, and whether this database's outbox belongs to this server [P]. Plain code, inside
// a transaction.
#pragma once

#include "pg/prelude.h"

namespace outbox::pg {

enum class Presence : uint8 {
  kAbsent,        // no extension (or not yet, or no longer)
  kUnused,        // no route was ever made and nothing emitted: nothing to keep, and perhaps a restore is running
  kOtherVersion,  // the extension's version is not the library's
  kForeign,       // a copy: restored, cloned, or started under another outbox.instance; silent until outbox.adopt()
  kHere,
};

struct Installation {
  Presence presence;
  Oid owner;         // of outbox_internal.log; InvalidOid when absent
  char version[64];  // of the extension
};

Installation FindInstallation();

// Whose outbox this is, by outbox_internal.identity: of anybody, and of this server, database and outbox.instance.
struct Identities {
  int64 all;
  int64 ours;
  bool IsCopy() const { return all != ours; }
  bool IsInUse() const { return all > 0 && !IsCopy(); }
};
// With SPI connected, as the owner of the tables.
Identities CountIdentities();

// The first create_route() or emit() makes the outbox belong to this server and database; afterwards, and in a copy, it
// changes nothing. Connects to SPI by itself, and writes with the rights of the table's owner, not the caller's. Waits
// for an open transaction that has just settled it, which may be rolled back; the second form leaves it to that one.
void SettleIdentity();
void SettleIdentityUnlessAnotherDoes();

// The origin of this database's transaction ids: system identifier and oid of the database, palloc'd; as in
// outbox_internal.lane.home.
char* HomeText();

// Whether an enabled subscription of this database replicates tables of outbox. Inside a transaction with SPI
// connected. Plain.
bool SubscribesToOutbox();

}  // namespace outbox::pg
