// Where outbox.so is [P behind, no Postgres type in sight]: the sink programs are installed beside it.
#pragma once

#include <string>

namespace outbox::pg {

std::string LibraryDirectory();
// outbox.so itself, by the name that it was loaded under. Plain; it lasts.
const char* LibraryFile();

}  // namespace outbox::pg
