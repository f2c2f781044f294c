// Fault points [-]: named places where a test build can crash, stop or fail. In every other build they are nothing:
// scripts/check-fault-points looks. Only scripts/test makes a test build (make OUTBOX_FAULT_POINTS=1).
//
//   OUTBOX_FAULT_POINT("park.before");                        can crash, stop, wait
//   if (OUTBOX_FAULT_FAILS("park.before")) return Status(..)  can also be asked to fail
//   OUTBOX_FAULT_THROW("save.reading");                      or to throw, where that becomes a Status
//   now += OUTBOX_FAULT_VALUE("clock.shift");                 a number that tests set; 0 without
//
// In .cpp files only: the Makefile recompiles those that include this header. Names are file names: lower case,
// dots, underscores. Every name in src/ is crashed by test/t/090_fault_points.pl, which finds them by itself: where it
// cannot reach a new one, teach it how.
//
// A test build looks at environment variable OUTBOX_FAULT_DIR once per process (not set: a point costs a function call)
// and then, each time a point is passed, at these files of that directory:
//
//   NAME            armed: "ACTION [COUNT|*] [ARGUMENT]" acts at the COUNT-th pass from now, whatever process makes
//   it, and
//                   removes the file; * acts at each pass and leaves it.
//                   kill (SIGKILL), abort, exit (ARGUMENT: code), stop (SIGSTOP), fail, sleep (ARGUMENT: ms), wait
//                   (until NAME.waiting, which it makes, is removed; at most 60 s)
//   poison          "ACTION TEXT": a sink process does that whenever it is given a record that holds the text
//   NAME.reached    made at the first pass of a process
//   hits            a line "NAME ACTION PID" for each action taken
#pragma once

#ifdef OUTBOX_FAULT_POINTS

#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace outbox {

// Returns true if the caller is asked to fail. *reached is the fault point's own memory. Neither throws nor allocates;
// any thread.
bool PassFaultPoint(const char* name, bool* reached) noexcept;
// The number in file NAME, 0 when there is none.
int64_t FaultValue(const char* name) noexcept;
// What file "poison" says ("ACTION TEXT") is done when the bytes hold the text, each time.
void TastePoison(std::string_view bytes) noexcept;

}  // namespace outbox

#define OUTBOX_FAULT_FAILS(name)                     \
  ([] {                                              \
    static bool reached = false;                     \
    return ::outbox::PassFaultPoint(name, &reached); \
  }())
#define OUTBOX_FAULT_POINT(name) static_cast<void>(OUTBOX_FAULT_FAILS(name))
// For code whose exceptions become a Status.
#define OUTBOX_FAULT_THROW(name)                     \
  do {                                               \
    if (OUTBOX_FAULT_FAILS(name)) {                  \
      throw std::runtime_error("injected at " name); \
    }                                                \
  } while (false)
#define OUTBOX_FAULT_VALUE(name) (::outbox::FaultValue(name))
#define OUTBOX_FAULT_POISON(bytes) (::outbox::TastePoison(bytes))

#else

#define OUTBOX_FAULT_FAILS(name) (false)
#define OUTBOX_FAULT_POINT(name) static_cast<void>(0)
#define OUTBOX_FAULT_THROW(name) static_cast<void>(0)
#define OUTBOX_FAULT_VALUE(name) (0)
#define OUTBOX_FAULT_POISON(bytes) static_cast<void>(0)

#endif
