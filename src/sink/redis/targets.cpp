#include "sink/redis/targets.h"

#include <functional>
#include <iterator>
#include <utility>

#include "sink/redis/resp.h"

namespace outbox::sink {
namespace {

uint64_t KeyHash(uint32_t flow, std::string_view key) {
  if (key.data() == nullptr) {
    return 0;
  }
  uint64_t hash = std::hash<std::string_view>()(key) ^ (uint64_t{flow} * 0x9e3779b97f4a7c15u);
  return hash == 0 ? 1 : hash;
}

}  // namespace

Target* Targets::Find(RecordForm form, std::string_view name) {
  lookup_.assign(1, static_cast<char>(form)).append(name);
  std::unique_ptr<Target>& target = targets_[lookup_];
  if (target == nullptr) {
    target = std::make_unique<Target>();
    target->form = form;
    target->name.assign(name);
  }
  return target.get();
}

bool Targets::Add(uint32_t flow, uint32_t epoch, uint64_t seq, const Record& record) {
  Entry entry{flow, epoch, seq, KeyHash(flow, record.key), 0, {}};
  if (record.form == RecordForm::kStream) {
    auto field = [&entry](std::string_view name, std::string_view value) {
      resp::AppendBulk(name, &entry.encoded);
      resp::AppendBulk(value, &entry.encoded);
      entry.arguments += 2;
    };
    size_t size = 64 + record.key.size() + record.body.size();
    for (const Field& extra : record.fields) {
      size += 24 + extra.name.size() + extra.value.size();
    }
    entry.encoded.reserve(size);
    if (record.key.data() != nullptr) {
      field("key", record.key);
    }
    if (record.body.data() != nullptr) {
      field("payload", record.body);
    }
    for (const Field& extra : record.fields) {
      field(extra.name, extra.value);
    }
    if (entry.arguments == 0) {
      return false;
    }
  } else {
    resp::AppendBulk(record.body, &entry.encoded);
    entry.arguments = 1;
  }
  Target* target = Find(record.form, record.topic);
  target->queue.push_back(std::move(entry));
  if (target->queue.size() == 1) {
    Wake(target);
  }
  return true;
}

void Targets::PutBack(Target* target, std::vector<Entry> entries) {
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

void Targets::Wake(Target* target) {
  if (!target->queue.empty()) {
    if (!target->listed) {
      target->listed = true;
      ready_.push_back(target);
    }
  } else if (target->calls == 0 && !target->listed) {
    lookup_.assign(1, static_cast<char>(target->form)).append(target->name);
    targets_.erase(lookup_);
  }
}

void Targets::Clear() {
  ready_.clear();
  targets_.clear();
}

}  // namespace outbox::sink
