#include "pg/library_directory.h"

#include <dlfcn.h>

#include "pg/prelude.h"

namespace outbox::pg {

const char* LibraryFile() {
  Dl_info info;
  return dladdr(reinterpret_cast<void*>(&LibraryFile), &info) == 0 ? nullptr : info.dli_fname;
}

void NameLibrary(char* name, size_t size) {
  const char* file = LibraryFile();
  const bool fits = file != nullptr && strlen(file) < size;  // 96 bytes before PostgreSQL 17
  strlcpy(name, fits ? file : "outbox", size);
}

std::string LibraryDirectory() {
  const char* file = LibraryFile();
  if (file == nullptr) {
    return pkglib_path;
  }
  std::string path = file;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string(pkglib_path) : path.substr(0, slash);
}

}  // namespace outbox::pg
