#include "sink/redis/waiting_records.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string_view>

#include "base/monotonic.h"
#include "base/release.h"
#include "sink/protocol.h"
#include "sink/redis/commands.h"
#include "sink/redis/errors.h"

namespace outbox::sink {
namespace {

// A stream takes elements of up to 1 GB together; the one error that would be a single record's within a transaction.
static_assert(kMaxFrame < size_t{1} << 30);

uint64_t KeyHash(uint32_t flow, std::string_view key) {
  if (key.data() == nullptr) {
    return 0;
  }
  uint64_t hash = std::hash<std::string_view>()(key) ^ (uint64_t{flow} * 0x9e3779b97f4a7c15u);
  return hash == 0 ? 1 : hash;
}

uint64_t HashOf(const Target& target, const Entry& entry) {
  const std::hash<std::string_view> hash;
  return hash(std::string_view(*entry.batch).substr(entry.offset, entry.size)) ^
         (hash(target.name) * 0x9e3779b97f4a7c15u);
}

Suspects::Record RecordOf(const Target& target, const Entry& entry) {
  return {HashOf(target, entry), entry.size};
}

// What a command that was executed answers: an id, or a number. Anything else was written by no one.
bool IsDone(const Target& target, const ReplyView& reply) {
  return reply.type == (target.form == RecordForm::kStream ? REDIS_REPLY_STRING : REDIS_REPLY_INTEGER);
}

}  // namespace

Error OneOf(Error error, size_t records) {
  if (error.error_class == ErrorClass::kMessage && records > 1) {
    error.error_class = ErrorClass::kSolo;
  }
  return error;
}

Error UnexpectedReply() {
  return {ErrorClass::kInternal, "UNEXPECTED_REPLY", "the Redis server answered a command unexpectedly"};
}

bool AllWritten(const Parts& parts, std::span<const ReplyView> answers) {
  size_t next = 0;
  for (const Part& part : parts) {
    for (size_t i = 0; i < part.commands; ++i, ++next) {
      if (next == answers.size() || !IsDone(*part.target, answers[next])) {
        return false;
      }
    }
  }
  return next == answers.size();
}

// Records become commands here, while the server is busy with those before: it waits for nothing but their bytes later.
void WaitingRecords::Submit(Batch batch) {
  if (!outcomes_.AdmitsBatch(batch)) {
    return;
  }
  const auto bytes = std::make_shared<std::string>();
  RecordReader reader(batch.records);
  for (uint32_t i = 0; i < batch.count; ++i) {
    if (!reader.Next(&scratch_)) {
      outcomes_.FailUnsent(batch, i,
                           {ErrorClass::kInternal, "BAD_RECORD", "the batch holds fewer records than it says"});
      break;
    }
    if (!HasContent(scratch_)) {
      outcomes_.FailUnsent(batch, i, {ErrorClass::kMessage, "EMPTY_RECORD", "a stream entry needs at least one field"});
      break;
    }
    has_streams_ |= scratch_.form == RecordForm::kStream;
    Target* target = targets_.Find(scratch_.form, scratch_.topic);
    const size_t offset = encoded_.bytes().size();
    AppendEntry(*target, scratch_, &encoded_);
    targets_.Add(target, {batch.flow, batch.epoch, batch.first_seq + i, bytes, offset, encoded_.bytes().size() - offset,
                          KeyHash(batch.flow, scratch_.key)});
  }
  Release(&batch.records);  // one of many megabytes lies here twice at most
  bytes->assign(encoded_.bytes());
  encoded_.Clear();
}

size_t WaitingRecords::TogetherWithNext(const Target& target) const {
  return suspects_.any() ? suspects_.Together(HashOf(target, target.queue.front())) : Suspects::kInnocent;
}

Part WaitingRecords::Take(Target* target, size_t records, size_t bytes, Group* group) {
  Part part;
  part.target = target;
  std::deque<Entry>& queue = target->queue;
  part.entries.reserve(std::min(records, queue.size()));
  while (!queue.empty() && part.entries.size() < records &&
         (part.entries.empty() || part.bytes + queue.front().size <= bytes)) {
    const size_t together = TogetherWithNext(*target);
    const bool fits =
        together == Suspects::kInnocent || (group != nullptr && suspects_.writes() && group->Takes(together));
    if (!part.entries.empty() && !fits) {
      break;
    }
    if (group != nullptr) {
      group->Add(together);
    }
    part.bytes += queue.front().size;
    part.entries.push_back(targets_.Take(target));
  }
  ++target->calls;
  return part;
}

void WaitingRecords::RefuseNext(Target* target) {
  const Entry entry = targets_.Take(target);
  suspects_.Blame(RecordOf(*target, entry));
  outcomes_.Failed(
      *target, entry,
      {ErrorClass::kSolo, "CLOSES_CONNECTION",
       "the Redis server closed the connection three times when this event came alone, of " +
           std::to_string(entry.size) + " bytes: client-query-buffer-limit, or what a proxy lets through"});
  AbortBarred(entry.flow);
  targets_.Wake(target);
}

void WaitingRecords::Judge(Part part, std::span<const ReplyView> answers) {
  Target* target = part.target;
  const size_t count = part.entries.size();
  size_t done = 0;
  while (done < answers.size() && IsDone(*target, answers[done])) {
    ++done;
  }
  const size_t written = done == answers.size() ? count : done;
  for (size_t i = 0; suspects_.any() && i < written; ++i) {
    suspects_.Written(RecordOf(*target, part.entries[i]));
  }
  if (written > 0) {
    suspects_.Wrote();  // below, numbers have no text: lists and channels have no places
    outcomes_.Delivered(*target, std::span<const Entry>(part.entries).first(written), answers[0].text,
                        answers[done - 1].text);
  }
  if (written == count) {
    targets_.Wake(target);
    return;
  }
  const ReplyView& refusal = answers[done];
  const size_t records = answers.size() == count ? 1 : count;  // of the command that was refused
  Stopped(std::move(part), written,
          refusal.type == REDIS_REPLY_ERROR ? OneOf(ReplyError(refusal.text), records) : UnexpectedReply(),
          Others::kAnswered, answers);
}

void WaitingRecords::Stopped(Part part, size_t done, Error error, Others others, std::span<const ReplyView> answers) {
  const Entry failed = std::move(part.entries[done]);
  if (NeedsReconnect(error)) {
    reconnect_ = error;
  }
  outcomes_.Failed(*part.target, failed, std::move(error));
  // A transaction goes on behind a command that fails: each command of it has an answer of its own.
  const auto unsent = [others, answers](size_t record) {
    return others == Others::kUnwritten ||
           (others == Others::kAnswered && answers[std::min(record, answers.size() - 1)].type == REDIS_REPLY_ERROR);
  };
  std::vector<Entry> again;
  for (size_t i = done + 1; i < part.entries.size(); ++i) {
    if (outcomes_.Admits(part.entries[i])) {
      again.push_back(std::move(part.entries[i]));
    } else {
      outcomes_.Aborted(part.entries[i], unsent(i));
    }
  }
  part.entries = std::move(again);
  targets_.PutBack(part.target, std::move(part.entries));
  AbortBarred(failed.flow);
  targets_.Wake(part.target);
}

void WaitingRecords::PutBack(Part part) {
  Target* target = part.target;
  targets_.PutBack(target, std::move(part.entries));
  targets_.Wake(target);
}

// What waits of a flow that was stopped.
void WaitingRecords::AbortBarred(uint32_t flow) {
  std::vector<Entry> barred;
  targets_.Remove([this, flow](const Entry& entry) { return entry.flow == flow && !outcomes_.Admits(entry); }, &barred);
  for (const Entry& entry : barred) {
    outcomes_.Aborted(entry, true);
  }
}

void WaitingRecords::Suspect(std::initializer_list<const Parts*> on_their_way) {
  std::vector<Suspects::Record> records;
  for (const Parts* parts : on_their_way) {
    for (const Part& part : *parts) {
      for (const Entry& entry : part.entries) {
        records.push_back(RecordOf(*part.target, entry));
      }
    }
  }
  suspects_.Closed(records, MonotonicMicros());
}

// Redis closes the connection behind a command that it cannot take at all: no EXEC is answered then.
void WaitingRecords::AbortSent(Part part) {
  size_t begin = 0;
  if (!part.refused.ok()) {
    outcomes_.Failed(*part.target, part.entries[begin++], std::move(part.refused));
  }
  for (size_t i = begin; i < part.entries.size(); ++i) {
    outcomes_.Aborted(part.entries[i], false);
  }
}

void WaitingRecords::AbortWaiting() {
  std::vector<Entry> waiting;
  targets_.Remove([](const Entry&) { return true; }, &waiting);
  for (const Entry& entry : waiting) {
    outcomes_.Aborted(entry, true);
  }
  targets_.Clear();
}

void WaitingRecords::Clear() {
  targets_.Clear();
  outcomes_.Clear();
}

}  // namespace outbox::sink
