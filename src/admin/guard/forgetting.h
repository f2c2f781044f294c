// What consumers have handled is not forgotten without a word [P]: whoever drops the extension is refused while the
// inbox has marks of days that are kept, keys or positions; `SET outbox.allow_loss = on` lets it through, with a
// WARNING. By rows of one table: ../../inbox/take_back.cpp. Seen where the library is loaded, as in loss.h.
#pragma once

#include <string>

namespace outbox::admin {

// `command`: "drop extension outbox". The caller holds the locks by now after which nothing is added. Throws.
void JudgeForgetting(const std::string& command);

}  // namespace outbox::admin
