// librdkafka makes its threads and locks with C11's <threads.h>. ThreadSanitizer (clang 14, g++ 12) knows only POSIX
// threads: it crashes in a thread that thrd_create made, and sees no lock in mtx_lock. In its builds these stand in the
// way of glibc's, which are the same things under other names (thrd_t is pthread_t, mtx_t holds a pthread_mutex_t).
#include <errno.h>
#include <pthread.h>
#include <threads.h>
#include <time.h>

#include <memory>

namespace {

static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t) && sizeof(cnd_t) == sizeof(pthread_cond_t));

pthread_mutex_t* Posix(mtx_t* mutex) {
  return reinterpret_cast<pthread_mutex_t*>(mutex);
}
pthread_cond_t* Posix(cnd_t* condition) {
  return reinterpret_cast<pthread_cond_t*>(condition);
}

int Answer(int error) {
  switch (error) {
    case 0:
      return thrd_success;
    case EBUSY:
      return thrd_busy;
    case ETIMEDOUT:
      return thrd_timedout;
    case ENOMEM:
      return thrd_nomem;
    default:
      return thrd_error;
  }
}

struct Start {
  thrd_start_t function;
  void* argument;
};

void* Run(void* start) {
  std::unique_ptr<Start> given(static_cast<Start*>(start));
  return reinterpret_cast<void*>(static_cast<intptr_t>(given->function(given->argument)));
}

}  // namespace

extern "C" {

int thrd_create(thrd_t* thread, thrd_start_t function, void* argument) {
  auto start = std::make_unique<Start>(Start{function, argument});
  int error = pthread_create(thread, nullptr, Run, start.get());
  if (error == 0) {
    (void)start.release();
  }
  return Answer(error);
}

int thrd_join(thrd_t thread, int* result) {
  void* value = nullptr;
  int error = pthread_join(thread, &value);
  if (error == 0 && result != nullptr) {
    *result = static_cast<int>(reinterpret_cast<intptr_t>(value));
  }
  return Answer(error);
}

int thrd_detach(thrd_t thread) {
  return Answer(pthread_detach(thread));
}

int mtx_init(mtx_t* mutex, int type) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, (type & mtx_recursive) != 0 ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
  int error = pthread_mutex_init(Posix(mutex), &attributes);
  pthread_mutexattr_destroy(&attributes);
  return Answer(error);
}
int mtx_lock(mtx_t* mutex) {
  return Answer(pthread_mutex_lock(Posix(mutex)));
}
int mtx_trylock(mtx_t* mutex) {
  return Answer(pthread_mutex_trylock(Posix(mutex)));
}
int mtx_timedlock(mtx_t* __restrict mutex, const timespec* __restrict until) {
  return Answer(pthread_mutex_timedlock(Posix(mutex), until));
}
int mtx_unlock(mtx_t* mutex) {
  return Answer(pthread_mutex_unlock(Posix(mutex)));
}
void mtx_destroy(mtx_t* mutex) {
  pthread_mutex_destroy(Posix(mutex));
}

int cnd_init(cnd_t* condition) {
  return Answer(pthread_cond_init(Posix(condition), nullptr));
}
int cnd_signal(cnd_t* condition) {
  return Answer(pthread_cond_signal(Posix(condition)));
}
int cnd_broadcast(cnd_t* condition) {
  return Answer(pthread_cond_broadcast(Posix(condition)));
}
int cnd_wait(cnd_t* condition, mtx_t* mutex) {
  return Answer(pthread_cond_wait(Posix(condition), Posix(mutex)));
}
int cnd_timedwait(cnd_t* __restrict condition, mtx_t* __restrict mutex, const timespec* __restrict until) {
  return Answer(pthread_cond_timedwait(Posix(condition), Posix(mutex), until));
}
void cnd_destroy(cnd_t* condition) {
  pthread_cond_destroy(Posix(condition));
}

}  // extern "C"
