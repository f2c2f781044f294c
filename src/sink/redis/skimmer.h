// One reply of which only the outline is wanted [-]: the entries of streams are passed over as they come.
//
// A string that is longer than an id or a name, and what is in an array in an array in an array, read as nil. So what a
// server tells of a stream is small, whatever is in the stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::sink {

class Skimmer {
 public:
  // Takes bytes of the reply; returns how many. Fewer than all: the others are behind its end.
  size_t Take(std::string_view bytes);
  // The reply is there, or cannot be read.
  bool whole() const { return whole_; }
  // What is left of it, a reply itself, or something that is none.
  const std::string& kept() const { return kept_; }
  // What it takes here.
  size_t held() const { return kept_.size() + line_.size(); }
  // How long it was, so far.
  size_t size() const { return size_; }

 private:
  bool passes() const;
  void HandleLine();
  void BeginArray(int64_t elements);
  void BeginString(int64_t size);
  void EndValue();

  bool whole_ = false;
  size_t size_ = 0;
  std::string kept_;
  std::string line_;            // what has come of one
  uint64_t content_ = 0;        // of a string and its end, still to come
  bool wanted_ = false;         // that string is
  std::vector<uint64_t> left_;  // elements of the arrays we are in, outermost first
};

}  // namespace outbox::sink
