// Copies of shared memory, for looking [P]. Everything is empty where the module is not preloaded.
#pragma once

#include <string>
#include <vector>

#include "admin/query.h"
#include "pg/shared.h"

namespace outbox::admin {

struct WorkerLook {
  pg::WorkerKind kind = pg::WorkerKind::kRelay;
  bool running = false;
  bool stopping = false;
  Oid database = InvalidOid;
  int ordinal = 0;
  int pid = 0;
  uint64 incarnation = 0;
  TimestampTz since = 0;
  uint64 barrier = 0;  // that all its lanes have reached
};

struct LaneLook {
  int64 route_id = 0;
  int lane = 0;
  int side = 0;  // 0: the lane itself
  uint64 owner = 0;
  bool owned = false;  // the owner is alive
  char state[16] = {};
  int64 delivered_to = 0;
  int64 inflight_count = 0;
  TimestampTz next_try = 0;
  uint64 barrier = 0;
  char error_class[16] = {};
  char error_code[64] = {};
  char error_message[256] = {};
  TimestampTz error_since = 0;
};

// Throw PgError or bad_alloc, with no lock held.
std::vector<WorkerLook> LookAtWorkers();  // of all databases
std::vector<LaneLook> LookAtLanes(Oid database);

// The look of a lane, or of its side lane of that number; nullptr: nobody works on it.
const LaneLook* FindLook(const std::vector<LaneLook>& looks, int64 route_id, int lane, int side = 0);

// What one relay worker knows of a destination.
struct DestinationLook {
  Oid server = InvalidOid;
  std::string name;
  uint64 owner = 0;
  bool alive = false;
  char state[16] = {};
  TimestampTz since = 0;
  TimestampTz next_try = 0;
  uint64 trips = 0;
  uint64 deaths = 0;
  bool warning = false;
  char error_class[16] = {};
  char error_code[64] = {};
  char error_message[256] = {};
};
std::vector<DestinationLook> LookAtDestinations(Oid database);

// Input form of timestamptz, whatever the session's DateStyle; The cells are NULL for 0.
std::string UnixMicrosText(int64 micros);
Cell UnixMicrosCell(int64 micros);
Cell TimestampCell(TimestampTz at);
// NULL for an empty text.
Cell TextCell(const char* text);

// 55000 with the configuration line, where the module is not preloaded.
void RequirePreload();

}  // namespace outbox::admin
