#include "sink/log/log_sink.h"

#include <utility>

#include "base/monotonic.h"
#include "base/utf8.h"
#include "sink/options.h"
#include "sink/protocol.h"

namespace outbox::sink {
namespace {

constexpr int64_t kBodyLimit = 1000;
constexpr size_t kOtherLimit = 1000;  // of a key or a header

void AppendEscaped(std::string_view text, size_t limit, std::string* line) {
  constexpr char kHex[] = "0123456789abcdef";
  size_t size = text.size();
  size_t shown = 0;
  while (shown < size) {
    std::string_view rest = text.substr(shown);
    size_t length = Utf8CharacterLength(rest);
    if (shown + (length == 0 ? 1 : length) > limit) {
      line->append("... (").append(std::to_string(size)).append(" bytes)");
      return;
    }
    if (rest[0] == '\n') {
      line->append("\\n");
    } else if (rest[0] == '\r') {
      line->append("\\r");
    } else if (rest[0] == '\t') {
      line->append("\\t");
    } else if (length == 0) {
      const auto byte = static_cast<unsigned char>(rest[0]);
      line->append({'\\', 'x', kHex[byte >> 4], kHex[byte & 15]});
    } else {
      char spelled[6];
      line->append(LegibleCharacter(rest, spelled, &length));
    }
    shown += length == 0 ? 1 : length;
  }
}

}  // namespace

void FormatRecordLine(const Record& record, size_t body_limit, std::string* line) {
  line->clear();
  AppendEscaped(record.topic, kOtherLimit, line);
  if (record.key.data() != nullptr) {
    line->append(" key=");
    AppendEscaped(record.key, kOtherLimit, line);
  }
  if (record.body.data() != nullptr) {
    line->append(" payload=");
    AppendEscaped(record.body, body_limit, line);
  } else {
    line->append(" tombstone");
  }
  for (const Field& field : record.fields) {
    line->append(" ");
    AppendEscaped(field.name, kOtherLimit, line);
    line->append("=");
    AppendEscaped(field.value, kOtherLimit, line);
  }
}

LogSink::LogSink(const Options& options, WriteLine write_line)
    : body_limit_(static_cast<size_t>(IntegerOption(options, "body_limit", kBodyLimit))),
      write_line_(std::move(write_line)) {}

void LogSink::Submit(Batch batch) {
  if (!gate_.Admits(batch.flow, batch.epoch)) {
    AppendResult({batch.flow, batch.first_seq, batch.count, Outcome::kAborted, {}, true}, &results_);
    return;
  }
  RecordReader reader(batch.records);
  Record record;
  uint32_t done = 0;
  while (done < batch.count && reader.Next(&record)) {
    FormatRecordLine(record, body_limit_, &line_);
    write_line_(line_);
    ++done;
  }
  if (done != 0) {
    AppendResult({batch.flow, batch.first_seq, done, Outcome::kDelivered, {}}, &results_);
  }
  if (done < batch.count) {
    Error error{ErrorClass::kInternal, "BAD_RECORD", "the batch holds fewer records than it says"};
    results_.push_back({batch.flow, batch.first_seq + done, 1, Outcome::kFailed, std::move(error)});
    gate_.Poison(batch.flow, batch.epoch);
    if (done + 1 < batch.count) {
      results_.push_back({batch.flow, batch.first_seq + done + 1, batch.count - done - 1, Outcome::kAborted, {}, true});
    }
  }
}

void LogSink::Poll(std::vector<Result>* results) {
  for (Result& result : results_) {
    AppendResult(std::move(result), results);
  }
  results_.clear();
}

void LogSink::AppendWaits(std::vector<WaitSpec>* waits) {
  if (!results_.empty()) {
    waits->push_back({-1, false, false, MonotonicMicros()});
  }
}

void LogSink::Close() {
  results_.clear();
}

}  // namespace outbox::sink
