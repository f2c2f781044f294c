// Asks a server that waits to be admitted what it still has of entries that were acknowledged [-].
//
// Up to three commands for each stream, one after the other: where it ends (XINFO STREAM), the newest entry up to the
// one that was asked about, and the newest one from before the server's process began (XREVRANGE both).
//
// A server that may not be asked, or is no Redis, does not tell. One that cannot answer now (BUSY, LOADING) is no such:
// the connection is of no use then, and the next one asks again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sink/redis/command_pipeline.h"
#include "sink/sink.h"

namespace outbox::sink {

class StreamEnds {
 public:
  // `pipeline` is the owner's and lives longer. `lost` is called when the connection is of no use.
  StreamEnds(Pipeline* pipeline, std::function<void(Error)> lost) : pipeline_(pipeline), lost_(std::move(lost)) {}

  // `began`: ServerInfo's. What was asked before is forgotten.
  void Ask(std::vector<AskedStream> streams, int64_t began);
  // True once, when all that was asked about has been answered; what the server did not tell is left out.
  bool Take(std::vector<StreamEnd>* ends);
  // The connection is lost.
  void Forget();

 private:
  enum class State { kNothingAsked, kAsking, kAnswered };
  struct Question {
    StreamEnd end;
    std::string deleted;   // the last id that was ever deleted there; "": it does not tell
    bool removed = false;  // entries were, at either end
    std::string up_to;     // the newest entry up to the one that was asked about; "": none
  };
  using QuestionPtr = std::shared_ptr<Question>;
  using Step = void (StreamEnds::*)(const QuestionPtr& question, const redisReply& reply);

  void Send(const std::string& command, const QuestionPtr& question, Step step);
  void HandleEnd(const QuestionPtr& question, const redisReply& reply);
  void HandleUpTo(const QuestionPtr& question, const redisReply& reply);
  void HandleBefore(const QuestionPtr& question, const redisReply& reply);
  static bool Lacks(const Question& question);
  static bool IsOlder(const Question& question);
  void Answer(const QuestionPtr& question);
  void AnswerNothing();

  Pipeline* const pipeline_;
  const std::function<void(Error)> lost_;
  int64_t began_ = 0;
  State state_ = State::kNothingAsked;
  size_t unanswered_ = 0;  // streams
  std::vector<StreamEnd> ends_;
};

}  // namespace outbox::sink
