#include "sink/refused_calls.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace outbox::sink {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;  // another: no filter
#endif
constexpr uint32_t kX32 = 0x40000000;

// Numbers that this machine's headers do not have are given by hand: they are the same everywhere since 5.1.
constexpr long kDenied[] = {
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    438 /* pidfd_getfd */,
    424 /* pidfd_send_signal */,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_unshare,
    428 /* open_tree */,
    429 /* move_mount */,
    430 /* fsopen */,
    431 /* fsconfig */,
    432 /* fsmount */,
    433 /* fspick */,
    442 /* mount_setattr */,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_acct,
    SYS_quotactl,
    SYS_personality,
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    425 /* io_uring_setup */,
    426 /* io_uring_enter */,
    427 /* io_uring_register */,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
#endif
};
constexpr long kPrograms[] = {SYS_execve, SYS_execveat};
// Their first argument is a process: only this one is allowed.
constexpr long kSignals[] = {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo};

constexpr auto kNumber = static_cast<uint32_t>(offsetof(seccomp_data, nr));
constexpr auto kArch = static_cast<uint32_t>(offsetof(seccomp_data, arch));
// Arguments. Low halves: both machines are little-endian.
constexpr auto kFirst = static_cast<uint32_t>(offsetof(seccomp_data, args));
constexpr auto kSecond = static_cast<uint32_t>(kFirst + sizeof(seccomp_data::args[0]));

bool Install(std::vector<sock_filter>* filter) {
  sock_fprog program{static_cast<unsigned short>(filter->size()), filter->data()};
  constexpr unsigned long kSpecAllow = 1UL << 2;  // before 5.16 a filter slows all of the process down otherwise
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kSpecAllow, &program) == 0 ||
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

}  // namespace

// Calls by the numbers of another machine (32 bits, x32) are refused, all of them: so no later filter has to ask.
bool RefuseCalls() {
  if (kArchitecture == 0) {
    return false;
  }
  const sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  std::vector<sock_filter> filter;
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kArch));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
  filter.push_back(refuse);
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber));
#ifdef __x86_64__
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1));
  filter.push_back(refuse);
#endif
  auto deny = [&](long number) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1));
    filter.push_back(refuse);
  };
  for (long number : kDenied) {
    deny(number);
  }
  if (!kSanitized) {
    for (long number : kPrograms) {
      deny(number);
    }
  }
  for (long number : kSignals) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4));
    filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFirst));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(getpid()), 0, 1));
    filter.push_back(allow);
    filter.push_back(refuse);
  }
  filter.push_back(allow);
  return Install(&filter);
}

// A pair of datagram sockets is refused, too: either end can be connected to something else.
void RefuseSockets() {
  constexpr uint32_t kTypes = 0xf;
  std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(SYS_socket), 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFirst),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 5, 6),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(SYS_socketpair), 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kSecond),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kTypes),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_SEQPACKET, 1, 0),
      // As of a kernel that has no such sockets: libraries know what to do without.
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  Install(&filter);
}

}  // namespace outbox::sink
