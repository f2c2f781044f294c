// The files that the options of a destination name: certificates, keys, authorities [-].
//
// They are renewed under their names, by another file or by other bytes in it, and a client library reads them once.
// Who has made a client of them asks here whether they are others by now; who could make none, what is wrong with them.
#pragma once

#include <sys/stat.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "sink/sink.h"

namespace outbox::sink {

class NamedFiles {
 public:
  NamedFiles() = default;
  // `names`: of the options whose values are file names. Those that are not set are left out.
  NamedFiles(const Options& options, std::initializer_list<const char*> names);

  bool empty() const { return files_.empty(); }
  // Takes them as they are now for known. Call before they are read: what comes later counts as changed.
  void Note();
  // Whether one is not as it was then.
  bool Changed();
  // Whether they have changed, and were the same at the last call: a certificate and its key are two files, of which
  // one comes first.
  bool ChangedAndSettled();
  // Of the first that cannot be used, as far as it can be told without the client library, and why not: it cannot be
  // read, is a directory where there may be none, is empty, has no PEM texts, or they are cut short. "": there is none.
  std::string Unusable() const;
  // The file of that option for a message; "" where it is not set.
  std::string Describe(const std::string& option) const;
  // What to do about messages that have these descriptions; "" of others.
  static const char* Hint(std::string_view message);

 private:
  struct State {
    dev_t device = 0;
    ino_t number = 0;
    off_t size = 0;
    timespec written{};
    timespec changed{};  // its rights, too: one that could not be read may be readable now

    bool operator==(const State& other) const;
  };
  struct File {
    std::string option;
    std::string path;
    State noted = {};
    State seen = {};
  };

  static State Look(const std::string& path);  // follows links. All zero: it is not there

  std::vector<File> files_;
};

}  // namespace outbox::sink
