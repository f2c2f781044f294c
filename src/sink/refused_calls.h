// The system calls that a sink process is refused [-]: the part of confine.h that seccomp does. For the rest of the
// process's life, in all threads that it starts from then on.
#pragma once

namespace outbox::sink {

// Their runtimes write reports, start symbolizers and trace.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

// With no_new_privs set. Returns false where there is no seccomp, or no list for this machine.
bool RefuseCalls();
// After RefuseCalls() has returned true.
void RefuseSockets();
// The same. Mode, owner and attributes of files that are open; of others they are refused already.
void RefuseChangesOfFiles();

}  // namespace outbox::sink
