// Where outbox.so is [P behind, no Postgres type in sight]: the sink programs are installed beside it.
#pragma once

#include <string>

namespace outbox::pg {

std::string LibraryDirectory();
// outbox.so itself, by the name that it was loaded under. Plain; it lasts.
const char* LibraryFile();
// What bgw_library_name, `size` bytes, is to say. By its file's name PostgreSQL knows the library that it has loaded,
// and looks for no file: processes start also while the package is away, and never with another library than the
// server's. Plain.
void NameLibrary(char* name, size_t size);

}  // namespace outbox::pg
