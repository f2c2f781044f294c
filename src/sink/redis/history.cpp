#include "sink/redis/history.h"

#include <utility>

#include "sink/places.h"

namespace outbox::sink {
namespace {

constexpr size_t kRemembered = 100;  // each answer has two whole entries

}  // namespace

void StreamHistory::Acknowledged(const std::string& stream, std::string_view id) {
  auto found = last_.find(stream);
  if (found == last_.end()) {
    if (last_.size() >= kRemembered) {
      last_.erase(last_.begin());
    }
    found = last_.try_emplace(stream).first;
  }
  found->second.assign(id);
}

std::vector<std::string> StreamHistory::Connected(std::string run_id) {
  unanswered_ = 0;
  std::vector<std::string> streams;
  if (run_id.empty() || run_id == run_id_) {
    return streams;
  }
  if (!run_id_.empty()) {
    for (const auto& [stream, id] : last_) {
      streams.push_back(stream);
    }
  }
  unanswered_ = streams.size();
  if (unanswered_ == 0) {
    run_id_ = std::move(run_id);
  } else {
    checking_run_id_ = std::move(run_id);  // ours only when all have answered: until then the check is done again
  }
  return streams;
}

bool StreamHistory::Checked(const std::string& stream, std::string_view last_generated_id, std::string* acknowledged) {
  Unknown();
  const auto found = last_.find(stream);
  if (found == last_.end() || !PlaceBefore(last_generated_id, found->second)) {
    return false;
  }
  *acknowledged = std::move(found->second);
  last_.erase(found);
  return true;
}

void StreamHistory::Unknown() {
  if (unanswered_ > 0 && --unanswered_ == 0) {
    run_id_ = checking_run_id_;
  }
}

}  // namespace outbox::sink
