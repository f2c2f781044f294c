#include "base/order_key.h"

namespace outbox {

namespace {

SipHash::Key key_secret;

// With its length: "a" and "bc" are another key than "ab" and "c".
void Add(std::string_view text, SipHash* hash) {
  char length[sizeof(uint32_t)];
  for (size_t i = 0; i < sizeof length; ++i) {
    length[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  }
  hash->Add({length, sizeof length});
  hash->Add(text);
}

}  // namespace

void UseKeySecret(const SipHash::Key& secret) {
  key_secret = secret;
}

uint64_t OrderKey(std::string_view topic, std::string_view aggregate_type, std::string_view aggregate_id) {
  if (aggregate_id.data() == nullptr) {
    return 0;
  }
  SipHash hash(key_secret);
  Add(topic, &hash);
  Add(aggregate_type, &hash);
  Add(aggregate_id, &hash);
  const uint64_t key = hash.Finish();
  return key == 0 ? 1 : key;
}

}  // namespace outbox
