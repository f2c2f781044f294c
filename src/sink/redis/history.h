// What a Redis server has acknowledged [-], so that one that forgot it is noticed: a server without persistence that
// was restarted, or a replica that was promoted before it had everything.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace outbox::sink {

class StreamHistory {
 public:
  // The last id of a call; ids of a stream only rise. Of very many streams only some are remembered.
  void Acknowledged(const std::string& stream, std::string_view id);

  // After connecting: the server's run id ("": it does not tell). The streams to ask about, if it is another one than
  // the ids were acknowledged by; each must get Checked() or Unknown() before the next Connected().
  std::vector<std::string> Connected(std::string run_id);
  // Where the stream ends ("": there is none). True: before what was acknowledged. Then it is forgotten.
  bool Checked(const std::string& stream, std::string_view last_generated_id, std::string* acknowledged);
  // It would not say.
  void Unknown();

 private:
  std::string run_id_;  // of the server that acknowledged
  std::string checking_run_id_;
  size_t unanswered_ = 0;
  std::unordered_map<std::string, std::string> last_;  // by stream
};

}  // namespace outbox::sink
