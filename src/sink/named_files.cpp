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

constexpr std::string_view kTheFile = "the file \"";
constexpr size_t kMostLooked = size_t{4} << 20;

std::string DescribeFile(const std::string& path, const std::string& option) {
  return std::string(kTheFile) + path + "\" of option \"" + option + "\"";
}

size_t Count(const std::string& text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

// Read as far as the limit, which no PEM file reaches. Returns false with errno.
bool ReadSome(int fd, std::string* text) {
  char part[8192];
  ssize_t got = 0;
  while (text->size() < kMostLooked && (got = read(fd, part, sizeof part)) > 0) {
    text->append(part, static_cast<size_t>(got));
  }
  return got >= 0;
}

std::string ProblemOf(const std::string& path, const std::string& option) {
  const std::string file = DescribeFile(path, option);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return "could not open " + file + ": " + strerror(errno);
  }
  struct stat status {};
  const bool directory = fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
  std::string text;
  const int error = directory || ReadSome(fd, &text) ? 0 : errno;
  close(fd);
  if (directory) {
    return option == "ssl.ca.location" ? "" : file + " is a directory";  // librdkafka takes one there
  }
  if (error != 0) {
    return "could not read " + file + ": " + strerror(error);
  }
  if (text.empty()) {
    return file + " is empty";
  }
  if (option == "ssl.keystore.location") {
    return "";  // PKCS#12
  }
  const size_t begun = Count(text, "-----BEGIN ");
  return begun == 0                         ? file + " has no PEM text in it"
         : begun > Count(text, "-----END ") ? file + " is cut short or damaged: a PEM text in it has no end"
                                            : "";
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

std::string NamedFiles::Describe(const std::string& option) const {
  for (const File& file : files_) {
    if (file.option == option) {
      return DescribeFile(file.path, option);
    }
  }
  return "";
}

std::string NamedFiles::Unusable() const {
  for (const File& file : files_) {
    if (std::string problem = ProblemOf(file.path, file.option); !problem.empty()) {
      return problem;
    }
  }
  return "";
}

const char* NamedFiles::Hint(std::string_view message) {
  return message.find(kTheFile) == message.npos ? ""
                                                : "It has to be a file that the server's user may read, with whole PEM "
                                                  "texts, from -----BEGIN to -----END; "
                                                  "once it is, it is read by itself.";
}

}  // namespace outbox::sink
