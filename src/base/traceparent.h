// What a traceparent is [-].
#pragma once

namespace outbox {

// A traceparent of W3C Trace Context, level 1: 00-<32 hex>-<16 hex>-<2 hex>, ids not all zero, lower case. Later
// versions may have more at the end.
bool IsTraceparent(const char* text);

}  // namespace outbox
