// What counts as loss [P]: events that some route has not delivered, counted by route. Of the log what is behind the
// route's lanes and wanted by it, of outbox_internal.parked what is not dead; events of this transaction included.
// Where routes or lanes go, whatever open transactions have emitted counts as well. Dead letters are told of beside it.
// Where the extension is of another version than the library, whatever the log still has counts: its positions cannot
// be read. Where a page or a file cannot be read there may be some: that it is gone is no reason to keep all else.
#pragma once

#include <string>

#include "pg/prelude.h"

struct TriggerData;

namespace outbox::admin {

constexpr int64 kEverything = 0;  // no route has it
constexpr size_t kRoutesTold = 10;

struct Loss {
  bool any = false;
  const char* uncounted = nullptr;  // there may be some, `text` says why it is not known; what has them counted
  int64 dead = 0;
  std::string text;
};

// What is asked about: all, or of that only.
struct Question {
  const char* server = nullptr;  // routes to it
  int64 route_id = kEverything;
  const char* table = nullptr;  // a day table alone (what is parked has a copy of its own)
  TriggerData* gone = nullptr;  // what the trigger's statement has removed from the log
  bool routes_go = false;       // what commits from now on is lost as well
};

// Under a new snapshot: the caller holds the locks by now after which nothing is added. Throws.
Loss FindLoss(const Question& question);

// What the routes to that server have not delivered, as text for messages; empty: nothing. Throws.
std::string UndeliveredTo(const char* server);

// "at least 3 pending".
std::string Counted(int64 count, bool capped, const char* what);

}  // namespace outbox::admin
