#include "pg/library_directory.h"

#include <dlfcn.h>

#include "pg/prelude.h"

namespace outbox::pg {

const char* LibraryFile() {
  Dl_info info;
  return dladdr(reinterpret_cast<void*>(&LibraryFile), &info) == 0 ? nullptr : info.dli_fname;
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
