// The key on which an event's order depends, in 64 bits [-]: resolved topic, aggregate type and aggregate id.
//
// Stored in outbox_internal.parked.order_key and computed by lanes and SQL functions alike: the hash IS the identity.
// Two keys that share it (one pair in 2^64) only wait for each other. Who may emit chooses keys; so the hash is
// SipHash-2-4 under a secret of the installation (outbox_internal.key_secret), and nobody can choose one that shares
// its hash with somebody else's, whose events would wait for his. Never changed otherwise: parked rows hold it.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/sip_hash.h"

namespace outbox {

// The secret from now on, of the one database that a process serves (pg/key_secret.h); zero before, as in tests.
void UseKeySecret(const SipHash::Key& secret);

// 0: no key (aggregate_id is NULL), no order.
uint64_t OrderKey(std::string_view topic, std::string_view aggregate_type, std::string_view aggregate_id);

}  // namespace outbox
