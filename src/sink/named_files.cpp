#include "sink/named_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "sink/options.h"

namespace outbox::sink {
namespace {

bool Same(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

bool NamedFiles::State::operator==(const State& other) const {
  return device == other.device && number == other.number && size == other.size && Same(written, other.written) &&
         Same(changed, other.changed);
}

NamedFiles::NamedFiles(const Options& options, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string path = TextOption(options, name, ""); !path.empty()) {
      files_.push_back({name, std::move(path)});
    }
  }
}

NamedFiles::State NamedFiles::Look(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    return {};
  }
  return {status.st_dev, status.st_ino, status.st_size, status.st_mtim, status.st_ctim};
}

void NamedFiles::Note() {
  for (File& file : files_) {
    file.noted = file.seen = Look(file.path);
  }
}

bool NamedFiles::Changed() {
  bool changed = false;
  for (File& file : files_) {
    file.seen = Look(file.path);
    changed |= !(file.seen == file.noted);
  }
  return changed;
}

bool NamedFiles::ChangedAndSettled() {
  const std::vector<File> before = files_;
  if (!Changed()) {
    return false;
  }
  for (size_t i = 0; i < files_.size(); ++i) {
    if (!(files_[i].seen == before[i].seen)) {
      return false;
    }
  }
  return true;
}

std::string NamedFiles::Unreadable() const {
  for (const File& file : files_) {
    const int fd = open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
      return "could not open the file \"" + file.path + "\" of option \"" + file.option + "\": " + strerror(errno);
    }
    close(fd);
  }
  return "";
}

}  // namespace outbox::sink
