// Which directories have to do with a data directory of PostgreSQL [-]: a sink process, which runs as the server's
// user, must not be let into one by way of what is beside it (confine.h).
#pragma once

#include <string>
#include <vector>

namespace outbox::sink {

class DataDirectories {
 public:
  // The server's own, with its WAL and its tablespaces where they lie elsewhere. "": it is not known.
  explicit DataDirectories(const std::string& own);

  // Whether `directory` is, is in or holds one of the server's own.
  bool Touched(const std::string& directory) const;
  // The same of any server's, which are known by their PG_VERSION: the same user may have several. Down from
  // `directory` a few levels are looked at.
  bool TouchedOrAnothers(const std::string& directory) const;

 private:
  std::vector<std::string> own_;  // without links
};

// The path with symbolic links resolved; itself where it leads nowhere.
std::string Resolved(const std::string& path);
// "" of what is in the root directory.
std::string DirectoryOf(const std::string& path);

}  // namespace outbox::sink
