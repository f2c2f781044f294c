/* Moves the wall clock of a server that is started with this in LD_PRELOAD: by the microseconds in the file that
 * CLOCK_SHIM_FILE names, read anew each time. Other clocks run on. For test/perl/Outbox/Clock.pm. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long shift(void) {
  const char *name = getenv("CLOCK_SHIM_FILE");
  int fd = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return 0;
  }
  char text[32] = "";
  ssize_t size = read(fd, text, sizeof(text) - 1);
  close(fd);
  return size > 0 ? atoll(text) : 0;
}

static long long moved(long long micros) { return micros + shift(); }

int clock_gettime(clockid_t id, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (real == NULL) {
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  }
  int result = real(id, now);
  if (result == 0 && id == CLOCK_REALTIME) {
    long long micros = moved(now->tv_sec * 1000000LL + now->tv_nsec / 1000);
    now->tv_sec = micros / 1000000;
    now->tv_nsec = micros % 1000000 * 1000 + now->tv_nsec % 1000;
  }
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec real;
  int result = clock_gettime(CLOCK_REALTIME, &real);
  now->tv_sec = real.tv_sec;
  now->tv_usec = real.tv_nsec / 1000;
  return result;
}

time_t time(time_t *result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL) {
    *result = now.tv_sec;
  }
  return now.tv_sec;
}
