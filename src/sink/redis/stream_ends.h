// Asks a server that waits to be admitted what it still has of entries that were acknowledged [-].
//
// Up to three commands for each stream, one after the other: where it ends (XINFO STREAM), the newest entry up to the
// one that was asked about, and the newest one from before the server's process began (XREVRANGE both). Not where the
// first entry is younger than that: the server would walk over all of them, from the end on, and answer nobody
// meanwhile.
//
// Their replies have entries of the stream in them, which we have no use for and the server has to hold until they are
// sent: that counts towards its maxmemory and its client-output-buffer-limit. So a few streams are asked about at once,
// where entries are large one.
//
// A server that may not be asked, or is no Redis, does not tell. One that cannot answer now (BUSY, LOADING) is no such:
// the connection is of no use then, and the next one asks again. One that hangs up whenever it is asked about a stream
// is not asked about that any more.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sink/redis/command_pipeline.h"
#include "sink/redis/server_info.h"
#include "sink/sink.h"

namespace outbox::sink {

class StreamEnds {
 public:
  using Refused = std::function<void(const std::string& stream, const redisReply&)>;
  // `pipeline` is the owner's and lives longer. `lost` is called when the connection is of no use, `refused` with what
  // was answered about a stream where that tells nothing.
  StreamEnds(Pipeline* pipeline, std::function<void(Error)> lost, Refused refused)
      : pipeline_(pipeline), lost_(std::move(lost)), refused_(std::move(refused)) {}

  // What was asked before is forgotten.
  void Ask(std::vector<AskedStream> streams, const ServerInfo& server);
  // True once, when all that was asked about has been answered; what the server did not tell is left out.
  bool Take(std::vector<StreamEnd>* ends);
  // The connection is lost.
  void Forget();
  // The same, by the other side: says so in `error` if that may be for what was asked. True: that will not be asked of
  // this run of the server again.
  bool HungUp(Error* error);
  // What was not asked of this run of the server; ok(): nothing.
  const Error& unasked() const { return unasked_; }

 private:
  enum class State { kNothingAsked, kAsking, kAnswered };
  struct Question {
    StreamEnd end;
    std::string deleted;   // the last id that was ever deleted there; "": it does not tell
    bool removed = false;  // entries were, at either end
    std::string first;     // entry; "": none, or it does not tell
    std::string up_to;     // the newest entry up to the one that was asked about; "": none
  };
  using QuestionPtr = std::shared_ptr<Question>;
  using Step = void (StreamEnds::*)(const QuestionPtr& question, const redisReply& reply);

  void AskNext();
  void Send(const std::string& command, const QuestionPtr& question, Step step);
  void AskForNewest(const QuestionPtr& question, const std::string& up_to, Step step);
  void HandleEnd(const QuestionPtr& question, const redisReply& reply);
  void HandleUpTo(const QuestionPtr& question, const redisReply& reply);
  void HandleBefore(const QuestionPtr& question, const redisReply& reply);
  static bool Lacks(const Question& question);
  static bool IsOlder(const Question& question);
  void Answer(const QuestionPtr& question);
  void AnswerNothing(const QuestionPtr& question);

  Pipeline* const pipeline_;
  const std::function<void(Error)> lost_;
  const Refused refused_;
  ServerInfo server_;
  State state_ = State::kNothingAsked;
  std::deque<AskedStream> waiting_;
  std::vector<std::string> asked_;  // streams that are on their way
  size_t at_once_ = 0;              // of these at most
  size_t longest_ = 0;              // reply
  std::vector<StreamEnd> ends_;
  unsigned hang_ups_ = 0;           // of this run of the server
  std::set<std::string> left_out_;  // streams at which it hung up
  Error unasked_;
};

}  // namespace outbox::sink
