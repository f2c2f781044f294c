#include "pg/library_directory.h"

#include <dlfcn.h>

#include "pg/prelude.h"

namespace outbox::pg {

std::string LibraryDirectory() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&LibraryDirectory), &info) == 0 || info.dli_fname == nullptr) {
    return pkglib_path;
  }
  std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string(pkglib_path) : path.substr(0, slash);
}

}  // namespace outbox::pg
