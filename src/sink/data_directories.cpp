#include "sink/data_directories.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <system_error>
#include <utility>

namespace outbox::sink {
namespace {

constexpr int kLevels = 3;            // Debian's /var/lib has them as postgresql/15/main
constexpr int kMostEntries = 10'000;  // a sink starts with this look

bool Within(const std::string& path, const std::string& directory) {
  return path == directory || directory == "/" || path.starts_with(directory + "/");
}

bool IsOne(const std::string& directory) {
  return access((directory + "/PG_VERSION").c_str(), F_OK) == 0;
}

bool HoldsOne(const std::string& directory) {
  std::deque<std::pair<std::string, int>> todo{{directory, 0}};
  int entries = 0;
  for (; !todo.empty(); todo.pop_front()) {
    const auto [at, level] = todo.front();
    std::error_code error;
    std::filesystem::directory_iterator entry(at, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      if (++entries > kMostEntries) {
        return false;
      }
      std::error_code unknown;
      // What links lead to is not beneath it.
      if (entry->symlink_status(unknown).type() != std::filesystem::file_type::directory) {
        continue;
      }
      if (IsOne(entry->path().string())) {
        return true;
      }
      if (level + 1 < kLevels) {
        todo.emplace_back(entry->path().string(), level + 1);
      }
    }
  }
  return false;
}

}  // namespace

std::string Resolved(const std::string& path) {
  char real[PATH_MAX];
  return realpath(path.c_str(), real) == nullptr ? path : std::string(real);
}

std::string DirectoryOf(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

DataDirectories::DataDirectories(const std::string& own) {
  if (own.empty()) {
    return;
  }
  own_ = {Resolved(own), Resolved(own + "/pg_wal")};
  std::error_code error;
  std::filesystem::directory_iterator link(own + "/pg_tblspc", error);
  for (; !error && link != std::filesystem::directory_iterator(); link.increment(error)) {
    own_.push_back(Resolved(link->path().string()));
  }
}

bool DataDirectories::Touched(const std::string& directory) const {
  const std::string real = Resolved(directory);
  for (const std::string& own : own_) {
    if (Within(real, own) || Within(own, real)) {
      return true;
    }
  }
  return false;
}

bool DataDirectories::TouchedOrAnothers(const std::string& directory) const {
  if (Touched(directory)) {
    return true;
  }
  const std::string real = Resolved(directory);
  for (std::string above = real; !above.empty(); above = DirectoryOf(above)) {
    if (IsOne(above)) {
      return true;
    }
  }
  return HoldsOne(real);
}

}  // namespace outbox::sink
