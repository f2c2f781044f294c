#include "admin/common/progress.h"

#include <cmath>

#include "admin/common/operation.h"
#include "base/monotonic.h"

extern "C" {
#include "mb/pg_wchar.h"
#include "storage/ipc.h"
}

namespace outbox::admin {

namespace {

constexpr int64_t kTellEvery = 2'000'000;

// FATAL passes by destructors.
void FreeMine(int, Datum) {
  for (int i = 0; i < pg::Shared()->max_progress; i++) {
    pg::ProgressSlot& slot = pg::ProgressSlots()[i];
    if (pg_atomic_read_u32(&slot.pid) == static_cast<uint32>(MyProcPid)) {
      pg_atomic_write_u32(&slot.pid, 0);
    }
  }
}

// Plain.
pg::ProgressSlot* Take(const char* command, const char* subject, int64 number) {
  static bool registered = false;
  if (pg::Shared() == nullptr) {
    return nullptr;
  }
  if (!registered) {
    before_shmem_exit(FreeMine, static_cast<Datum>(0));
    registered = true;
  }
  pg::ProgressSlot* found = nullptr;
  LWLockAcquire(pg::Shared()->lock, LW_EXCLUSIVE);
  for (int i = 0; i < pg::Shared()->max_progress && found == nullptr; i++) {
    pg::ProgressSlot* slot = &pg::ProgressSlots()[i];
    if (pg_atomic_read_u32(&slot->pid) == 0) {
      found = slot;
      slot->database = MyDatabaseId;
      slot->role = GetSessionUserId();
      slot->since = GetCurrentTimestamp();
      slot->number = number;
      strlcpy(slot->command, command, sizeof(slot->command));
      const int room = static_cast<int>(sizeof(slot->subject)) - 1;
      const int length = pg_mbcliplen(subject, static_cast<int>(strlen(subject)), room);
      memcpy(slot->subject, subject, static_cast<size_t>(length));
      slot->subject[length] = '\0';
      pg_atomic_write_u64(&slot->done, 0);
      pg_atomic_write_u64(&slot->total, 0);
      pg_atomic_write_u32(&slot->pid, static_cast<uint32>(MyProcPid));
    }
  }
  LWLockRelease(pg::Shared()->lock);
  return found;
}

// "3100 a second, 9 s left"; "" where nothing can be said yet.
std::string PaceText(int64 done, int64 left, int64_t micros) {
  if (done <= 0 || micros < 500'000) {
    return "";
  }
  const double rate = static_cast<double>(done) * 1e6 / static_cast<double>(micros);
  return std::to_string(static_cast<int64>(std::llround(rate))) + " a second, " +
         std::to_string(static_cast<int64>(std::ceil(static_cast<double>(left) / rate))) + " s left";
}

}  // namespace

Progress::Progress(const char* command, const std::string& subject, std::string things, std::string done_to_them,
                   int64 number)
    : things_(std::move(things)), done_to_them_(std::move(done_to_them)), began_(MonotonicMicros()), told_(began_) {
  const char* of = subject.c_str();
  slot_ = pg::Guard([=] { return Take(command, of, number); });
}

Progress::~Progress() {
  if (slot_ != nullptr) {
    pg_atomic_write_u32(&slot_->pid, 0);
  }
}

void Progress::Begin(int64 total, int64 done_before) {
  before_ = done_before;
  At(done_before, total);
}

void Progress::At(int64 done, int64 total) {
  if (slot_ != nullptr) {
    pg_atomic_write_u64(&slot_->total, static_cast<uint64>(total));
    pg_atomic_write_u64(&slot_->done, static_cast<uint64>(done));
  }
  const int64_t now = MonotonicMicros();
  if (now - told_ < kTellEvery || done >= total) {
    return;
  }
  told_ = now;
  Notice(std::to_string(done) + " of " + std::to_string(total) + " " + things_ + " " + done_to_them_, [&] {
    const std::string pace = PaceText(done - before_, total - done, now - began_);
    return pace.empty() ? pace : pace + ".";
  }());
}

}  // namespace outbox::admin
