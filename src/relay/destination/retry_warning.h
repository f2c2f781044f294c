// What is told of a sink for retries that takes nothing while the lanes' sink works [-]: nobody else meets it, so it is
// a warning of its destination. It is there once that has lasted for half a minute, until something is answered there;
// or until nothing was tried for a while, after which nobody knows.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace outbox::relay {

class RetryWarning {
 public:
  // How long it takes nothing before that is told. (A client library may keep records for as long as its broker is
  // away; so long they are left with it.)
  static constexpr int64_t kPatienceMicros = 30'000'000;

  // nullptr: none.
  const Error* Now(int64_t now) const { return !told_.ok() && now < until_ ? &told_ : nullptr; }
  int64_t since() const { return since_; }
  // The last one is over because something was answered.
  bool over() const { return over_; }

  // It took nothing from `since` until now.
  void OnSilence(const Error& why, int64_t since, int64_t now) {
    if (why.ok()) {
      return;  // it does not know yet
    }
    since_ = refused_since_ == 0 ? since : refused_since_;
    refused_since_ = since_;
    Tell(why, now);
  }
  // It took nothing just now, and said so at once. `alone`: the lanes' sink works.
  void OnRefusal(const Error& why, bool alone, int64_t now) {
    if (!alone) {
      refused_since_ = 0;
      return;
    }
    refused_since_ = refused_since_ == 0 ? now : refused_since_;
    if (now - refused_since_ >= kPatienceMicros) {
      since_ = refused_since_;
      Tell(why, now);
    }
  }
  void OnAnswer() {
    over_ = over_ || !told_.ok();
    told_ = {};
    refused_since_ = 0;
  }
  // Of another configuration nothing is known.
  void Forget() { *this = RetryWarning(); }

 private:
  // Longer than from one try to the next, each of which is told of again.
  static constexpr int64_t kLasts = 300'000'000;

  void Tell(const Error& why, int64_t now) {
    told_ = why;
    told_.message = "what is tried again goes by a connection of its own, and that takes nothing: " + told_.message;
    until_ = now + kLasts;
    over_ = false;
  }

  Error told_;
  int64_t until_ = 0;
  int64_t since_ = 0;
  int64_t refused_since_ = 0;  // 0: it was answered last, or nothing was tried
  bool over_ = false;
};

}  // namespace outbox::relay
