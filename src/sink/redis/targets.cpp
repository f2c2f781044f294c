#include "sink/redis/targets.h"

#include <iterator>
#include <utility>

#include "sink/redis/commands.h"

namespace outbox::sink {

Target* Targets::Find(RecordForm form, std::string_view name) {
  if (found_ != nullptr && found_->form == form && found_->name == name) {
    return found_;
  }
  lookup_.assign(1, static_cast<char>(form)).append(name);
  std::unique_ptr<Target>& target = targets_[lookup_];
  if (target == nullptr) {
    target = std::make_unique<Target>();
    target->form = form;
    target->name.assign(name);
    target->head = MakeHead(form, name, maxlen_);
  }
  return found_ = target.get();
}

void Targets::Add(Target* target, Entry entry) {
  ++records_;
  bytes_ += entry.size;
  target->queue.push_back(std::move(entry));
  if (target->queue.size() == 1) {
    Wake(target);
  }
}

Entry Targets::Take(Target* target) {
  Entry entry = std::move(target->queue.front());
  target->queue.pop_front();
  --records_;
  bytes_ -= entry.size;
  return entry;
}

void Targets::PutBack(Target* target, std::vector<Entry> entries) {
  records_ += entries.size();
  for (const Entry& entry : entries) {
    bytes_ += entry.size;
  }
  target->queue.insert(target->queue.begin(), std::make_move_iterator(entries.begin()),
                       std::make_move_iterator(entries.end()));
}

Target* Targets::TakeReady() {
  if (ready_.empty()) {
    return nullptr;
  }
  Target* target = ready_.front();
  ready_.pop_front();
  target->listed = false;
  return target;
}

void Targets::PutReadyBack(Target* target) {
  ready_.push_front(target);
  target->listed = true;
}

void Targets::Wake(Target* target) {
  if (!target->queue.empty()) {
    if (!target->listed) {
      target->listed = true;
      ready_.push_back(target);
    }
  } else if (target->calls == 0 && !target->listed) {
    found_ = found_ == target ? nullptr : found_;
    lookup_.assign(1, static_cast<char>(target->form)).append(target->name);
    targets_.erase(lookup_);
  }
}

void Targets::Clear() {
  ready_.clear();
  targets_.clear();
  found_ = nullptr;
  records_ = bytes_ = 0;
}

}  // namespace outbox::sink
