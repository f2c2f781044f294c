#include "format/topic_of.h"

namespace outbox::format {

TopicOf::Answer TopicOf::Judged(std::string_view aggregate_type, std::string_view aggregate_id,
                                std::string_view event_type, std::string_view own) {
  if (!IsNull(own)) {
    return Ask(own);
  }
  if (template_.uses_aggregate_id()) {
    scratch_.clear();
    template_.Expand(aggregate_type, aggregate_id, event_type, &scratch_);
    return Ask(scratch_);
  }
  if (last_ != nullptr && last_event_type_ == event_type && last_type_ == aggregate_type) {
    return {last_->topic, last_->bad};
  }
  // With the length of the first, no two pairs are the same text, whatever bytes they hold.
  const size_t type_size = aggregate_type.size();
  lookup_.assign(reinterpret_cast<const char*>(&type_size), sizeof(type_size));
  lookup_.append(aggregate_type).append(event_type);
  auto found = cache_.find(lookup_);
  if (found == cache_.end()) {
    if (cache_.size() >= kMaxCached) {
      cache_.clear();
    }
    found = cache_.emplace(lookup_, Known{}).first;
    template_.Expand(aggregate_type, {}, event_type, &found->second.topic);
    found->second.bad = Ask(found->second.topic).bad;
  }
  last_ = &found->second;
  last_type_.assign(aggregate_type);
  last_event_type_.assign(event_type);
  return {last_->topic, last_->bad};
}

}  // namespace outbox::format
