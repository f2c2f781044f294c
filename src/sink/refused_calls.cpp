#include "sink/refused_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
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

// Whatever they are asked.
constexpr long kDenied[] = {
    // Other processes: their memory, descriptors, pages, priority at the disk.
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_ioprio_set,
    SYS_migrate_pages,
    SYS_move_pages,
    424 /* pidfd_send_signal */,
    434 /* pidfd_open */,
    438 /* pidfd_getfd */,
    440 /* process_madvise */,
    448 /* process_mrelease */,
    // What all processes of a user share.
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_semctl,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_mq_notify,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    // Files by their names, whether or not they may be opened: landlock does not ask about these, and about the length
    // only from Linux 6.2 on.
    SYS_fchmodat,
    452 /* fchmodat2 */,
    SYS_fchownat,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    463 /* setxattrat */,
    466 /* removexattrat */,
    469 /* file_setattr */,
    SYS_truncate,
#ifdef SYS_chmod
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
#endif
    // The machine.
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
// Other programs and processes: a process that was forked would have another number than the one that is let through
// below, and could outlive this one until somebody else is given that, or be in a namespace where it is almighty.
constexpr long kPrograms[] = {
    SYS_execve,
    SYS_execveat,
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
};

// Files that are open to be read.
constexpr long kOfOpenFiles[] = {SYS_fchmod, SYS_fchown, SYS_fsetxattr, SYS_fremovexattr};

// Refused where bits of an argument are those, and bits of another. Of arguments the low halves: both machines are
// little-endian, and the kernel itself looks at no more of these.
struct Asked {
  int argument;
  uint32_t bits;
  uint32_t value;
};
struct DeniedAs {
  long call;
  Asked first;
  Asked second = {0, 0, 0};  // always so
};
constexpr uint32_t kAll = ~uint32_t{0};
constexpr uint32_t kSchedCore = 62;  // a prctl
constexpr DeniedAs kDeniedAs[] = {
    // Signals about a file go to whom its owner names, a lease or a watch holds up or follows what others do.
    {SYS_fcntl, {1, kAll, F_SETOWN}},
    {SYS_fcntl, {1, kAll, F_SETOWN_EX}},
    {SYS_fcntl, {1, kAll, F_SETSIG}},
    {SYS_fcntl, {1, kAll, F_SETLEASE}},
    {SYS_fcntl, {1, kAll, F_NOTIFY}},
    {SYS_fcntl, {1, kAll, F_SETFL}, {2, O_ASYNC, O_ASYNC}},
    {SYS_ioctl, {1, kAll, FIOSETOWN}},
    {SYS_ioctl, {1, kAll, SIOCSPGRP}},
    {SYS_ioctl, {1, kAll, FIOASYNC}},
    // The server's terminal may be standard error.
    {SYS_ioctl, {1, kAll, TIOCSTI}},
    {SYS_ioctl, {1, kAll, TIOCLINUX}},
    {SYS_ioctl, {1, kAll, TIOCSPGRP}},
    {SYS_setpriority, {0, kAll, PRIO_PGRP}},
    {SYS_setpriority, {0, kAll, PRIO_USER}},
    {SYS_prctl, {0, kAll, kSchedCore}},
    // To be emptied and not written, and neither to be read nor written: either passes landlock, the first before 6.2.
    {SYS_openat, {2, O_TRUNC | O_ACCMODE, O_TRUNC | O_RDONLY}},
    {SYS_openat, {2, O_ACCMODE, O_ACCMODE}},
#ifdef SYS_open
    {SYS_open, {1, O_TRUNC | O_ACCMODE, O_TRUNC | O_RDONLY}},
    {SYS_open, {1, O_ACCMODE, O_ACCMODE}},
#endif
};
constexpr DeniedAs kForks = {SYS_clone, {0, CLONE_THREAD, 0}};
// As of a kernel that has no such calls: libraries know what to do without. What they are asked stands in memory, where
// no filter can look.
constexpr long kClone3 = 435;
constexpr long kOpenat2 = 437;

// One argument is a process: this one, or 0, which means it where it is no group.
struct OfItself {
  long call;
  int argument;
  bool zero;
};
constexpr OfItself kOfItself[] = {
    {SYS_kill, 0, false},
    {SYS_tkill, 0, false},
    {SYS_tgkill, 0, false},
    {SYS_rt_sigqueueinfo, 0, false},
    {SYS_rt_tgsigqueueinfo, 0, false},
    {SYS_prlimit64, 0, true},
    {SYS_setpriority, 1, true},
    {SYS_sched_setaffinity, 0, true},
    {SYS_sched_setattr, 0, true},
    {SYS_sched_setparam, 0, true},
    {SYS_sched_setscheduler, 0, true},
    {SYS_get_robust_list, 0, true},
};

constexpr auto kNumber = static_cast<uint32_t>(offsetof(seccomp_data, nr));
constexpr auto kArch = static_cast<uint32_t>(offsetof(seccomp_data, arch));
constexpr sock_filter kAllow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

constexpr uint32_t Argument(int index) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + static_cast<size_t>(index) * sizeof(uint64_t));
}
constexpr sock_filter Load(uint32_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
}
constexpr sock_filter Mask(uint32_t bits) {
  return BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits);
}
// How many statements are left out.
constexpr sock_filter IfIs(uint32_t value, uint8_t yes, uint8_t no) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no);
}
constexpr sock_filter IfCalled(long call, uint8_t yes, uint8_t no) {
  return IfIs(static_cast<uint32_t>(call), yes, no);
}
constexpr sock_filter Refuse(uint32_t error) {
  return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
}

class Filter {
 public:
  void Add(std::initializer_list<sock_filter> statements) {
    statements_.insert(statements_.end(), statements.begin(), statements.end());
  }
  // With the number loaded.
  void Deny(long call, uint32_t error = EPERM) { Add({IfCalled(call, 0, 1), Refuse(error)}); }
  void Deny(const DeniedAs& denied) {
    Add({Load(kNumber), IfCalled(denied.call, 0, 7),                                                      //
         Load(Argument(denied.first.argument)), Mask(denied.first.bits), IfIs(denied.first.value, 0, 4),  //
         Load(Argument(denied.second.argument)), Mask(denied.second.bits), IfIs(denied.second.value, 0, 1),
         Refuse(EPERM)});
  }
  void Deny(const OfItself& call) {
    const auto itself = static_cast<uint32_t>(getpid());
    Add({Load(kNumber), IfCalled(call.call, 0, 4), Load(Argument(call.argument)), IfIs(itself, 2, 0),
         IfIs(call.zero ? 0 : itself, 1, 0), Refuse(EPERM)});
  }
  bool Install() {
    Add({kAllow});
    sock_fprog program{static_cast<unsigned short>(statements_.size()), statements_.data()};
    constexpr unsigned long kSpecAllow = 1UL << 2;  // before 5.16 a filter slows all of the process down otherwise
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kSpecAllow, &program) == 0 ||
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
  }

 private:
  std::vector<sock_filter> statements_;
};

}  // namespace

// Calls by the numbers of another machine (32 bits, x32) are refused, all of them: so no later filter has to ask.
bool RefuseCalls() {
  if (kArchitecture == 0) {
    return false;
  }
  Filter filter;
  filter.Add({Load(kArch), IfIs(kArchitecture, 1, 0), Refuse(EPERM), Load(kNumber)});
#ifdef __x86_64__
  filter.Add({BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1), Refuse(EPERM)});
#endif
  for (long call : kDenied) {
    filter.Deny(call);
  }
  if (!kSanitized) {
    for (long call : kPrograms) {
      filter.Deny(call);
    }
    filter.Deny(kClone3, ENOSYS);
    filter.Deny(kForks);
  }
  filter.Deny(kOpenat2, ENOSYS);
  for (const DeniedAs& denied : kDeniedAs) {
    filter.Deny(denied);
  }
  for (const OfItself& call : kOfItself) {
    filter.Deny(call);
  }
  return filter.Install();
}

void RefuseChangesOfFiles() {
  Filter filter;
  filter.Add({Load(kNumber)});
  for (long call : kOfOpenFiles) {
    filter.Deny(call);
  }
  filter.Install();
}

// A pair of datagram sockets is refused, too: either end can be connected to something else.
void RefuseSockets() {
  constexpr uint32_t kTypes = 0xf;
  Filter filter;
  filter.Add({
      Load(kNumber),
      IfCalled(SYS_socket, 0, 2),
      Load(Argument(0)),
      IfIs(AF_UNIX, 5, 6),
      IfCalled(SYS_socketpair, 0, 5),
      Load(Argument(1)),
      Mask(kTypes),
      IfIs(SOCK_STREAM, 2, 0),
      IfIs(SOCK_SEQPACKET, 1, 0),
      // As of a kernel that has no such sockets: libraries know what to do without.
      Refuse(EAFNOSUPPORT),
  });
  filter.Install();
}

}  // namespace outbox::sink
