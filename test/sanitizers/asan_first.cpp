// Preloaded into the server behind AddressSanitizer's library, and initialised before every other library (initfirst):
// brings the sanitizer up while nobody holds a lock. Left to itself that happens in the first malloc, which comes from
// libgpg-error's constructor inside bindtextdomain(); the sanitizer then looks for symbols, dlerror() translates its
// message, and gettext's lock, taken by this very thread, is released twice. The server would hang in its own
// bindtextdomain().
extern "C" void __asan_init(void);

__attribute__((constructor)) static void First() {
  __asan_init();
}
