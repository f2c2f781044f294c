// The one place where Postgres headers enter C++ [P]. Include it last, after the standard library's headers.
//
// It hides three differences: C linkage, macros that clash with C++ (printf family), and names that
// only some of the supported major versions 15 to 19 have; calls that differ are in pg/server_versions.h. Files that
// need a further server header include it inside an `extern "C"` block of their own, after this file.
#pragma once

extern "C" {
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/uuid.h"
#include "utils/wait_event.h"
#include "utils/xid8.h"
}

#if PG_VERSION_NUM < 150000
#error "outbox needs PostgreSQL 15 or newer"
#endif

// Postgres redirects these names to its own functions by macro; C++ headers included later would be renamed too.
#undef printf
#undef fprintf
#undef sprintf
#undef snprintf
#undef vprintf
#undef vfprintf
#undef vsprintf
#undef vsnprintf
#undef strerror
#undef gettext
#undef dgettext
#undef ngettext
#undef dngettext

// 19 gave signal handlers a second argument, and this name to what ignores a signal.
#ifndef PG_SIG_IGN
#define PG_SIG_IGN SIG_IGN
#endif

// Microseconds between the Unix epoch (1970) and Postgres' own (2000).
inline constexpr int64 kPgEpochMicros =
    static_cast<int64>(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY * USECS_PER_SEC;

// Unix microseconds of whatever time somebody gave. Saturates: the last times that timestamptz can say, and infinity,
// are beyond 64 bits of them.
inline int64 SaturatedUnixMicros(TimestampTz time) {
  return time > PG_INT64_MAX - kPgEpochMicros ? PG_INT64_MAX : time + kPgEpochMicros;
}

namespace outbox::pg {

// The time of day of the server's machine, in Unix microseconds: whatever is believed of it (pg/wall.h).
inline int64 UnixNow() {
  return GetCurrentTimestamp() + kPgEpochMicros;
}

// As a timestamptz.
inline Datum TimeDatum(int64 unix_micros) {
  return TimestampTzGetDatum(unix_micros - kPgEpochMicros);
}

}  // namespace outbox::pg
