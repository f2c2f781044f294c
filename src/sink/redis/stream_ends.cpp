#include "sink/redis/stream_ends.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sink/places.h"
#include "sink/redis/errors.h"
#include "sink/redis/reply.h"
#include "sink/redis/resp.h"

namespace outbox::sink {
namespace {

constexpr std::string_view kNeverUsed = "0-0";  // the last id of a stream that XGROUP CREATE has made
constexpr const char* kLastOfMillisecond = "-18446744073709551615";

constexpr size_t kMostAtOnce = 8;
constexpr size_t kMostUnread = size_t{1} << 20;  // of replies, were all as long as the longest
constexpr unsigned kHangUps = 5;                 // before a stream is left out; each one more leaves out one more
constexpr unsigned kMostHangUps = 20;            // before all are

// "": it is none.
std::string EntryId(const redisReply& entry) {
  const bool is_one = entry.type == REDIS_REPLY_ARRAY && entry.elements > 0;
  return is_one ? std::string(StringText(*entry.element[0])) : "";
}

// The first id in a reply to XREVRANGE; "": the stream has none, or the command was refused. False: that is no answer.
bool FirstId(const redisReply& reply, std::string* id) {
  id->clear();
  if (IsError(reply) || (reply.type == REDIS_REPLY_ARRAY && reply.elements == 0)) {
    return true;
  }
  if (reply.type == REDIS_REPLY_ARRAY) {
    *id = EntryId(*reply.element[0]);
  }
  return !id->empty() && IsStreamIdOrNone(*id);
}

}  // namespace

void StreamEnds::Ask(std::vector<AskedStream> streams, const ServerInfo& server) {
  if (server.run_id != server_.run_id || server.history != server_.history) {
    hang_ups_ = 0;
    left_out_.clear();
    unasked_ = {};
  }
  server_ = server;
  state_ = State::kAsking;
  waiting_.assign(std::make_move_iterator(streams.begin()), std::make_move_iterator(streams.end()));
  asked_.clear();
  at_once_ = 1;
  longest_ = 0;
  ends_.clear();
  AskNext();
}

void StreamEnds::AskNext() {
  while (!waiting_.empty() && asked_.size() < at_once_) {
    AskedStream asked = std::move(waiting_.front());
    waiting_.pop_front();
    if (hang_ups_ >= kMostHangUps || left_out_.contains(asked.stream)) {
      continue;
    }
    asked_.push_back(asked.stream);
    auto question = std::make_shared<Question>();
    question->end.stream = std::move(asked.stream);
    question->end.acknowledged = std::move(asked.acknowledged);
    Send(resp::Command({"XINFO", "STREAM", question->end.stream}), question, &StreamEnds::HandleEnd);
  }
  if (asked_.empty()) {
    state_ = State::kAnswered;
  }
}

void StreamEnds::Send(const std::string& command, const QuestionPtr& question, Step step) {
  const auto handle = [this, question, step](const redisReply& reply) {
    longest_ = std::max(longest_, pipeline_->skimmed());
    if (Error error = PassingError(reply); !error.ok()) {
      lost_(std::move(error));
    } else {
      (this->*step)(question, reply);
    }
  };
  pipeline_->Send(command, handle, Pipeline::Reading::kOutline);
}

void StreamEnds::AskForNewest(const QuestionPtr& question, const std::string& up_to, Step step) {
  if (PlaceBefore(up_to, question->first)) {
    redisReply none{};
    none.type = REDIS_REPLY_ARRAY;
    (this->*step)(question, none);
    return;
  }
  Send(resp::Command({"XREVRANGE", question->end.stream, up_to, "-", "COUNT", "1"}), question, step);
}

// Where no other client writes, the end of the stream tells all. Where it is younger than what was asked about, another
// client has written since: it is asked whether that entry is there, and what is older than the server's process.
void StreamEnds::HandleEnd(const QuestionPtr& question, const redisReply& reply) {
  StreamEnd& end = question->end;
  int64_t length = -1;
  int64_t added = -1;
  for (size_t i = 0; reply.type == REDIS_REPLY_ARRAY && i + 1 < reply.elements; i += 2) {
    const std::string_view name = StringText(*reply.element[i]);
    const redisReply& value = *reply.element[i + 1];
    if (name == "last-generated-id" && value.type == REDIS_REPLY_STRING) {
      end.last = Text(value);
    } else if (name == "max-deleted-entry-id" && value.type == REDIS_REPLY_STRING) {
      question->deleted = Text(value);  // Redis 7
    } else if (name == "first-entry") {
      question->first = EntryId(value);
    } else if (name == "length" && value.type == REDIS_REPLY_INTEGER) {
      length = value.integer;
    } else if (name == "entries-added" && value.type == REDIS_REPLY_INTEGER) {
      added = value.integer;
    }
  }
  question->removed = added != length;
  if (!IsStreamIdOrNone(end.last) || !IsStreamIdOrNone(question->deleted) || !IsStreamIdOrNone(question->first)) {
    refused_(end.stream, reply);  // whatever answers there is no Redis that can tell
    AnswerNothing(question);
    return;
  }
  if (PlaceBefore(end.acknowledged, end.last)) {
    AskForNewest(question, end.acknowledged, &StreamEnds::HandleUpTo);
    return;
  }
  const bool gone = SaysNoSuchKey(reply);
  if (end.last.empty() && !gone) {
    refused_(end.stream, reply);
    AnswerNothing(question);
    return;
  }
  end.kept = end.last;
  end.lacking = end.last != end.acknowledged;
  end.lost = end.lacking && !gone && end.last != kNeverUsed;
  Answer(question);
}

void StreamEnds::HandleUpTo(const QuestionPtr& question, const redisReply& reply) {
  StreamEnd& end = question->end;
  if (!FirstId(reply, &question->up_to)) {
    AnswerNothing(question);
    return;
  }
  const int64_t asked = atoll(end.acknowledged.c_str());
  if (IsError(reply) || server_.began == 0 || asked >= server_.began) {
    // A replica in its master's place, say: its process is older than what was acknowledged, so what is younger than
    // that may be another client's, written since. Too early a `kept` resends too much, too late a one loses.
    end.lacking = !IsError(reply) && Lacks(*question);
    end.lost = end.lacking && IsOlder(*question);
    end.kept = question->up_to;
    Answer(question);
  } else if (atoll(end.last.c_str()) < server_.began) {
    end.kept = end.last;  // the entry was there: what is younger is
    Answer(question);
  } else {
    AskForNewest(question, std::to_string(server_.began - 1) + kLastOfMillisecond, &StreamEnds::HandleBefore);
  }
}

void StreamEnds::HandleBefore(const QuestionPtr& question, const redisReply& reply) {
  StreamEnd& end = question->end;
  std::string before;
  if (!FirstId(reply, &before)) {
    AnswerNothing(question);
    return;
  }
  end.kept = PlaceBefore(before, question->up_to) ? question->up_to : before;
  end.lacking = !IsError(reply) && PlaceBefore(end.kept, end.acknowledged) && Lacks(*question);
  end.lost = end.lacking && IsOlder(*question);
  Answer(question);
}

// Whether an entry is lost, for all that the stream tells, or may have been trimmed or deleted by another client.
// Trimming takes the oldest first.
bool StreamEnds::Lacks(const Question& question) {
  const bool trimmed = question.up_to.empty() && question.removed;
  const bool deleted =
      question.deleted.empty() ? question.up_to.empty() : !PlaceBefore(question.deleted, question.end.acknowledged);
  return question.up_to != question.end.acknowledged && !trimmed && !deleted;
}

// Whether the stream has entries from before the one that is lacking, so was not made again after it had been deleted.
// Before Redis 7 the one that is lacking may have been deleted.
bool StreamEnds::IsOlder(const Question& question) {
  return !question.up_to.empty() && !question.deleted.empty();
}

void StreamEnds::Answer(const QuestionPtr& question) {
  ends_.push_back(question->end);
  AnswerNothing(question);
}

void StreamEnds::AnswerNothing(const QuestionPtr& question) {
  std::erase(asked_, question->end.stream);
  const size_t fit = std::clamp<size_t>(kMostUnread / std::max<size_t>(longest_, 1), 1, kMostAtOnce);
  at_once_ = hang_ups_ > 0 ? 1 : std::min(at_once_ + 1, fit);
  AskNext();
}

bool StreamEnds::Take(std::vector<StreamEnd>* ends) {
  if (state_ != State::kAnswered) {
    return false;
  }
  state_ = State::kNothingAsked;
  *ends = std::exchange(ends_, {});
  return true;
}

void StreamEnds::Forget() {
  state_ = State::kNothingAsked;
  waiting_.clear();
  asked_.clear();
}

// From the first time on one stream is asked about at once, so it is known at which one.
bool StreamEnds::HungUp(Error* error) {
  if (asked_.empty()) {
    return false;
  }
  const std::string& stream = asked_.front();
  const std::string when = "when it was asked what it has of stream \"" + stream + "\" (XINFO STREAM)";
  error->message += "; that was " + when +
                    ", which is answered with the first and the last entry of it: client-output-buffer-limit normal, "
                    "or what a proxy lets through";
  if (++hang_ups_ < kHangUps) {
    return false;
  }
  left_out_.insert(stream);
  if (unasked_.ok()) {
    unasked_ = {ErrorClass::kConfig, "NO_LOSS_CHECK",
                "the Redis server closed the connection " + std::to_string(hang_ups_) + " times " + when +
                    ": whether this run of it lacks events that were acknowledged is not known of streams with such "
                    "entries, and they are not sent again; raise client-output-buffer-limit normal"};
  }
  return true;
}

}  // namespace outbox::sink
