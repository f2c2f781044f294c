#include "relay/topic_of.h"

namespace outbox::relay {

std::string_view TopicOf::Resolve(std::string_view aggregate_type, std::string_view aggregate_id,
                                  std::string_view event_type, std::string_view own) {
  if (!IsNull(own)) {
    return own;
  }
  if (template_.uses_aggregate_id()) {
    scratch_.clear();
    template_.Expand(aggregate_type, aggregate_id, event_type, &scratch_);
    return scratch_;
  }
  if (last_ != nullptr && last_event_type_ == event_type && last_type_ == aggregate_type) {
    return *last_;
  }
  lookup_.assign(aggregate_type);
  lookup_.push_back('\0');
  lookup_.append(event_type);
  auto found = cache_.find(lookup_);
  if (found == cache_.end()) {
    if (cache_.size() >= kMaxCached) {
      cache_.clear();
    }
    found = cache_.emplace(lookup_, std::string()).first;
    template_.Expand(aggregate_type, {}, event_type, &found->second);
  }
  last_ = &found->second;
  last_type_.assign(aggregate_type);
  last_event_type_.assign(event_type);
  return *last_;
}

}  // namespace outbox::relay
