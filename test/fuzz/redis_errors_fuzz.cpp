// Error replies of Redis: each has one class, and its message can be stored and shown, whatever the server said.
#include <algorithm>

#include "fuzz.h"
#include "sink/redis/errors.h"

using namespace outbox;
using namespace outbox::sink;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string reply(reinterpret_cast<const char*>(data), size);
  const ReplyRule& rule = FindReplyRule(reply);
  FUZZ_CHECK(&rule >= ReplyRules().data() && &rule <= &ReplyRules().back());
  const Error error = ReplyError(reply);
  FUZZ_CHECK(error.error_class == rule.error_class && error.code == rule.code);
  FUZZ_CHECK(!rule.reconnect || NeedsReconnect(error));
  FUZZ_CHECK(!error.ok());
  // It goes into tables and logs.
  FUZZ_CHECK(error.message.size() < 1000);
  FUZZ_CHECK(std::none_of(error.message.begin(), error.message.end(),
                          [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }));
  FUZZ_CHECK(fuzz::IsUtf8(error.message));
  // Arguments may be payload or secret.
  const std::string with_arguments = "ERR unknown command 'x', with args beginning with: 'Se3cr1t' " + reply;
  FUZZ_CHECK(ReplyError(with_arguments).message.find("Se3cr1t") == std::string::npos);
  return 0;
}
