// Where outbox.so is [P behind, no Postgres type in sight]: the sink programs are installed beside it.
#pragma once

#include <string>

namespace outbox::pg {

std::string LibraryDirectory();

}  // namespace outbox::pg
