#include "metrics/stats_file.h"

#include "base/monotonic.h"
#include "metrics/store.h"
#include "pg/log_line.h"

extern "C" {
#include "pgstat.h"
#include "storage/fd.h"
}

namespace outbox::metrics {

namespace {

constexpr char kFile[] = PGSTAT_STAT_PERMANENT_DIRECTORY "/outbox.stat";
constexpr char kNewFile[] = PGSTAT_STAT_PERMANENT_DIRECTORY "/outbox.stat.tmp";
constexpr uint32 kMagic = 0x0B0F1604;  // of this form (RouteFigures and what is below); another one for any other

enum class Part : uint32 { kEnd, kDatabase, kRoute, kDestination, kPrepared };

// A file, and whether all has gone well with it.
struct Stream {
  FILE* file;
  bool ok;

  template <typename Value>
  void Write(Value value) {
    ok = ok && fwrite(&value, sizeof(value), 1, file) == 1;
  }
  template <typename Value>
  Value Read() {
    Value value{};
    ok = ok && fread(&value, sizeof(value), 1, file) == 1;
    return value;
  }
};

template <typename Figures>
void WriteAll(Figures* figures, Stream* to) {
  figures->ForEach([to](Counter* counter) { to->Write(ValueOf(*counter)); });
}

template <typename Figures>
void ReadAll(Stream* from, Figures* figures) {
  figures->ForEach([from](Counter* counter) { counter->store(from->Read<uint64>(), std::memory_order_relaxed); });
}

// The last minute and hour. Their times are by the monotonic clock, which goes on over a restart of the server, and
// begins anew with the machine.
void WriteRecent(RouteFigures* figures, Stream* to) {
  figures->ForEachRecent([to](auto* word) { to->Write(word->load(std::memory_order_relaxed)); });
}

void ReadRecent(Stream* from, bool keep, RouteFigures* figures) {
  figures->ForEachRecent([from](auto* word) {
    word->store(from->Read<std::remove_cvref_t<decltype(word->load())>>(), std::memory_order_relaxed);
  });
  if (!keep) {
    figures->ResetRecent();
  }
}

// When the monotonic clock was at zero, by the wall clock.
int64 MachineStart() {
  return GetCurrentTimestamp() - MonotonicMicros();
}

// The same start of the machine: wall clocks are set right by less than this.
constexpr int64 kSameStart = 10 * USECS_PER_SEC;

// Calls write(slot) for each that is used: those of databases that are gone last, because what has no place at the next
// start is left out.
template <typename Slot, typename Work>
void WriteSlots(Slot* slots, int count, const Work& write) {
  for (const bool gone : {false, true}) {
    for (int i = 0; i < count; i++) {
      const Oid database = slots[i].database.load();
      if (database != InvalidOid && IsGone(database) == gone) {
        write(&slots[i]);
      }
    }
  }
}

void Write(Stream* to) {
  to->Write(kMagic);
  to->Write(MachineStart());
  WriteSlots(DatabaseSlots(), Figures()->max_databases, [to](DatabaseFigures* slot) {
    to->Write(Part::kDatabase);
    to->Write(slot->database.load());
    to->Write(slot->reset_at.load());
    WriteAll(slot, to);
    WriteRecent(&slot->other, to);
  });
  WriteSlots(RouteSlots(), Figures()->max_routes, [to](RouteSlot* slot) {
    to->Write(Part::kRoute);
    to->Write(slot->database.load());
    to->Write(slot->server);
    to->Write(slot->route_id);
    WriteAll(&slot->figures, to);
    WriteRecent(&slot->figures, to);
  });
  WriteSlots(DestinationSlots(), Figures()->max_destinations, [to](DestinationFigures* slot) {
    to->Write(Part::kDestination);
    to->Write(slot->database.load());
    to->Write(slot->server);
    WriteAll(&slot->figures, to);
    to->Write(ValueOf(slot->figures.down_since));
  });
  for (int i = 0; i < Figures()->max_prepared; i++) {
    PreparedEmit* slot = &PreparedSlots()[i];
    if (slot->xid.load() != 0) {
      to->Write(Part::kPrepared);
      to->Write(slot->xid.load());
      to->Write(slot->database);
      to->Write(slot->events);
      to->Write(slot->bytes);
    }
  }
  to->Write(Part::kEnd);
}

// Slots beyond those that there are now are read and left out. Returns whether the file was whole.
bool Read(Stream* from) {
  int used[5] = {};
  static RouteFigures surplus;  // of the postmaster, before it forks anything
  if (from->Read<uint32>() != kMagic) {
    return false;
  }
  const int64 moved = MachineStart() - from->Read<int64>();
  const bool recent = moved < kSameStart && moved > -kSameStart;
  while (from->ok) {
    const Part part = from->Read<Part>();
    const int number = static_cast<uint32>(part) < 5 ? used[static_cast<uint32>(part)]++ : 0;
    switch (part) {
      case Part::kEnd:
        return from->ok;
      case Part::kDatabase: {
        static DatabaseFigures left_out;
        DatabaseFigures* slot = number < Figures()->max_databases ? &DatabaseSlots()[number] : &left_out;
        const Oid database = from->Read<Oid>();
        slot->reset_at = from->Read<int64_t>();
        ReadAll(from, slot);
        ReadRecent(from, recent, &slot->other);
        slot->database = database;
        break;
      }
      case Part::kRoute: {
        RouteSlot* slot = number < Figures()->max_routes ? &RouteSlots()[number] : nullptr;
        const Oid database = from->Read<Oid>();
        const Oid server = from->Read<Oid>();
        const int64_t route_id = from->Read<int64_t>();
        RouteFigures* figures = slot == nullptr ? &surplus : &slot->figures;
        ReadAll(from, figures);
        ReadRecent(from, recent, figures);
        if (slot != nullptr) {
          slot->server = server;
          slot->route_id = route_id;
          slot->database = database;
        }
        break;
      }
      case Part::kDestination: {
        static DestinationFigures left_out;
        const bool fits = number < Figures()->max_destinations;
        DestinationFigures* slot = fits ? &DestinationSlots()[number] : &left_out;
        const Oid database = from->Read<Oid>();
        slot->server = from->Read<Oid>();
        ReadAll(from, &slot->figures);
        slot->figures.down_since = from->Read<uint64>();
        slot->database = database;
        break;
      }
      // Whether pg_xact still has it is not known before recovery: SettlePrepared() looks.
      case Part::kPrepared: {
        static PreparedEmit left_out;
        PreparedEmit* slot = number < Figures()->max_prepared ? &PreparedSlots()[number] : &left_out;
        const uint64 xid = from->Read<uint64>();
        slot->database = from->Read<Oid>();
        slot->events = from->Read<uint64>();
        slot->bytes = from->Read<uint64>();
        slot->xid = xid;
        break;
      }
      default:
        return false;
    }
  }
  return false;
}

// What was read of a file that is not whole is worth nothing.
void Clear() {
  for (int i = 0; i < Figures()->max_databases; i++) {
    DatabaseSlots()[i].database = InvalidOid;  // set to zero when it is taken
  }
  for (int i = 0; i < Figures()->max_routes; i++) {
    RouteSlots()[i].database = InvalidOid;
  }
  for (int i = 0; i < Figures()->max_destinations; i++) {
    DestinationSlots()[i].database = InvalidOid;
  }
  for (int i = 0; i < Figures()->max_prepared; i++) {
    PreparedSlots()[i].xid = 0;
  }
}

}  // namespace

void SaveStats() {
  Stream to{AllocateFile(kNewFile, PG_BINARY_W), true};
  if (to.file != nullptr) {
    Write(&to);
    to.ok = FreeFile(to.file) == 0 && to.ok;
    to.ok = to.ok && rename(kNewFile, kFile) == 0;
  }
  if (to.file == nullptr || !to.ok) {
    ereport(LOG, (errcode_for_file_access(), errmsg("outbox could not write its figures to \"%s\": %m", kFile),
                  errdetail("They begin at zero when the server starts."), pg::LogEvent("figures_lost")));
    (void)unlink(kNewFile);
  }
}

void LoadStats() {
  Stream from{AllocateFile(kFile, PG_BINARY_R), true};
  if (from.file == nullptr) {
    if (errno != ENOENT) {
      ereport(LOG, (errcode_for_file_access(), errmsg("outbox could not read its figures from \"%s\": %m", kFile),
                    pg::LogEvent("figures_lost")));
    }
    return;
  }
  const bool whole = Read(&from);
  (void)FreeFile(from.file);
  (void)unlink(kFile);
  if (!whole) {
    Clear();
    ereport(LOG, (errmsg("outbox leaves out the figures in \"%s\"", kFile),
                  errdetail("The file is of another version of outbox, or not whole. All figures begin at zero."),
                  pg::LogEvent("figures_lost")));
  }
}

}  // namespace outbox::metrics
