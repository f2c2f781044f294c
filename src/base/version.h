// The version of this library [-]; outbox.control and the Makefile say the same. Workers idle while the extension in a
// database has another one.
#pragma once

namespace outbox {

inline constexpr const char* kVersion = "0.2";

}  // namespace outbox
