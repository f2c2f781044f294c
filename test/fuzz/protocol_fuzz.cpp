// Frames between worker and sink process: any stream of bytes in any pieces is taken apart or refused; what is written
// arrives; bodies go both ways; outcomes are counted once.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "fuzz.h"
#include "sink/checkup.h"
#include "sink/pending.h"
#include "sink/protocol.h"

using namespace outbox;
using namespace outbox::sink;

namespace {

struct Pair {
  Pair() { FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0); }
  ~Pair() {
    close(ends[0]);
    close(ends[1]);
  }
  int ends[2];
};

bool SameError(const Error& a, const Error& b) {
  return a.error_class == b.error_class && a.code == b.code && a.message == b.message;
}
bool SameResults(const std::vector<Result>& a, const std::vector<Result>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Result& x, const Result& y) {
    return x.flow == y.flow && x.first_seq == y.first_seq && x.count == y.count && x.outcome == y.outcome &&
           SameError(x.error, y.error);
  });
}

// The worker writes it into tables.
void CheckText(const Error& error) {
  FUZZ_CHECK(fuzz::IsUtf8(error.code) && fuzz::IsUtf8(error.message));
  FUZZ_CHECK(error.message.find('\0') == std::string::npos && error.message.size() <= 2000);
}

// What a body is taken for is what it would be written as.
void CheckBody(FrameType type, std::string_view body) {
  switch (type) {
    case FrameType::kConfigure: {
      SinkConfig config;
      SinkConfig again;
      if (DecodeConfigure(body, &config)) {
        FUZZ_CHECK(DecodeConfigure(EncodeConfigure(config), &again));
        FUZZ_CHECK(config.name == again.name && config.options == again.options &&
                   config.max_message_bytes == again.max_message_bytes &&
                   config.max_inflight_bytes == again.max_inflight_bytes && config.alive_ms == again.alive_ms);
      }
      break;
    }
    case FrameType::kSubmit: {
      Batch batch;
      if (DecodeSubmit(body, &batch)) {
        FUZZ_CHECK(EncodeSubmitHead(batch) + batch.records == body);
      }
      break;
    }
    case FrameType::kResults: {
      std::vector<Place> places;
      std::vector<Place> same_places;
      std::vector<Result> results;
      std::vector<Result> again;
      if (DecodeResults(body, &places, &results)) {
        for (const Place& place : places) {
          FUZZ_CHECK(fuzz::IsUtf8(place.topic) && fuzz::IsUtf8(place.first) && fuzz::IsUtf8(place.last));
        }
        for (const Result& result : results) {
          CheckText(result.error);
        }
        const std::string bytes = EncodeResults(places, results);
        FUZZ_CHECK(DecodeResults(bytes, &same_places, &again) && SameResults(results, again));
        FUZZ_CHECK(EncodeResults(same_places, again) == bytes);
      }
      break;
    }
    case FrameType::kIdentity: {
      std::string server_run;
      if (DecodeIdentity(body, &server_run)) {
        FUZZ_CHECK(fuzz::IsUtf8(server_run));
      }
      break;
    }
    case FrameType::kAsk: {
      std::vector<AskedStream> streams;
      if (DecodeAsk(body, &streams)) {
        FUZZ_CHECK(EncodeAsk(streams) == body);
      }
      break;
    }
    case FrameType::kEnds: {
      std::vector<StreamEnd> ends;
      if (DecodeEnds(body, &ends)) {
        for (const StreamEnd& end : ends) {
          FUZZ_CHECK(fuzz::IsUtf8(end.stream) && fuzz::IsUtf8(end.last));
        }
      }
      break;
    }
    case FrameType::kAdmit: {
      std::string server_run;
      bool drop = false;
      if (DecodeAdmit(body, &server_run, &drop)) {
        FUZZ_CHECK(EncodeAdmit(server_run, drop) == body);
      }
      break;
    }
    case FrameType::kCheckup: {
      CheckupRequest request;
      CheckupRequest again;
      if (DecodeCheckup(body, &request)) {
        FUZZ_CHECK(DecodeCheckup(EncodeCheckup(request), &again));
        FUZZ_CHECK(request.topic == again.topic && request.form == again.form &&
                   request.timeout_ms == again.timeout_ms && request.config.options == again.config.options);
      }
      break;
    }
    case FrameType::kCheckupRows: {
      std::vector<CheckupRow> rows;
      std::vector<CheckupRow> again;
      if (DecodeCheckupRows(body, &rows)) {
        FUZZ_CHECK(DecodeCheckupRows(EncodeCheckupRows(rows), &again) && rows.size() == again.size());
        for (size_t i = 0; i < rows.size(); ++i) {
          CheckText(rows[i].error);
          FUZZ_CHECK(SameError(rows[i].error, again[i].error) && rows[i].detail == again[i].detail &&
                     rows[i].hint == again[i].hint && rows[i].check == again[i].check);
        }
      }
      break;
    }
    case FrameType::kHealth: {
      Health health;
      Health copy;
      if (DecodeHealth(body, &health)) {
        CheckText(health.error);
        CheckText(health.warning);
        FUZZ_CHECK(DecodeHealth(EncodeHealth(health), &copy));
        FUZZ_CHECK(copy.up == health.up && SameError(copy.error, health.error) &&
                   SameError(copy.warning, health.warning) && copy.sending == health.sending);
      }
      break;
    }
    case FrameType::kReady:
    case FrameType::kClose:
    case FrameType::kAlive:
    case FrameType::kIdentifyAgain:
      break;
  }
}

// A peer that sends anything, in pieces.
void CheckForeignStream(fuzz::Input in) {
  Pair pair;
  FrameReader reader;
  std::string sent;
  std::string seen;  // frames, written again
  while (reader.state() == IoState::kOk && !in.empty()) {
    std::string_view piece = in.TakeBytes(1 + in.Take<uint8_t>());
    FUZZ_CHECK(send(pair.ends[0], piece.data(), piece.size(), 0) == static_cast<ssize_t>(piece.size()));
    sent += piece;
    bool got = false;
    reader.Fill(pair.ends[1], &got);
    Frame frame;
    while (reader.Next(&frame)) {
      auto size = static_cast<uint32_t>(frame.body.size());
      seen.append(reinterpret_cast<const char*>(&size), sizeof(size));
      seen.push_back(static_cast<char>(frame.type));
      seen.append(3, '\0').append(frame.body);
      CheckBody(frame.type, frame.body);
    }
  }
  FUZZ_CHECK(std::string_view(sent).starts_with(seen));
  FUZZ_CHECK(reader.state() != IoState::kOk || seen.size() + reader.buffered() == sent.size());
}

// What is written arrives, whatever the socket takes at a time.
void CheckOwnStream(fuzz::Input in) {
  Pair pair;
  FrameWriter writer;
  FrameReader reader;
  std::vector<std::pair<FrameType, std::string>> expected;
  size_t arrived = 0;
  const uint64_t frames = in.Below(12);
  for (uint64_t i = 0; i < frames; ++i) {
    auto type = static_cast<FrameType>(1 + in.Below(6));
    std::string head(in.Text());
    std::string body(in.Below(in.Flag() ? 40'000 : 40), static_cast<char>('a' + i));
    expected.emplace_back(type, head + body);
    writer.Append(type, head, std::move(body));
    if (in.Flag()) {
      FUZZ_CHECK(writer.Flush(pair.ends[0]) == IoState::kOk);
    }
  }
  bool got = true;
  while (got || !writer.empty()) {
    FUZZ_CHECK(writer.Flush(pair.ends[0]) == IoState::kOk);
    FUZZ_CHECK(reader.Fill(pair.ends[1], &got) == IoState::kOk);
    Frame frame;
    while (reader.Next(&frame)) {
      FUZZ_CHECK(arrived < expected.size());
      FUZZ_CHECK(frame.type == expected[arrived].first && frame.body == expected[arrived].second);
      ++arrived;
    }
  }
  FUZZ_CHECK(arrived == expected.size() && reader.buffered() == 0);
}

// PendingRecords against a plain map, and AppendResult against one entry per record.
void CheckOutcomes(fuzz::Input in) {
  PendingRecords pending;
  std::map<uint64_t, uint32_t> open;  // number -> flow
  std::map<uint64_t, Outcome> counted;
  std::vector<Result> joined;
  uint64_t next = in.Below(3);
  while (!in.empty()) {
    if (in.Take<uint8_t>() % 4 == 0) {
      auto flow = static_cast<uint32_t>(in.Below(3));
      auto count = static_cast<uint32_t>(in.Below(6));
      pending.Add(flow, flow + 7, next, count);
      for (uint32_t i = 0; i < count; ++i) {
        open[next + i] = flow;
      }
      next += count + in.Below(2);
      continue;
    }
    auto flow = static_cast<uint32_t>(in.Below(3));
    const uint64_t first = in.Below(next + 2);
    auto count = static_cast<uint32_t>(1 + in.Below(4));
    auto outcome = static_cast<Outcome>(1 + in.Below(3));
    bool all = true;
    for (uint64_t seq = first; seq < first + count; ++seq) {
      all = all && open.count(seq) != 0 && open[seq] == flow;
    }
    uint32_t epoch = 0;
    FUZZ_CHECK(pending.Resolve(flow, first, count, &epoch) == all);
    if (!all) {
      break;  // the peer is not trusted any more: the process is ended
    }
    FUZZ_CHECK(epoch == flow + 7);
    AppendResult({flow, first, count, outcome, {}}, &joined);
    for (uint64_t seq = first; seq < first + count; ++seq) {
      open.erase(seq);
      counted[seq] = outcome;
    }
    FUZZ_CHECK(pending.empty() == open.empty());
    std::map<uint64_t, uint32_t> left;
    pending.ForEach([&left](uint32_t flow, uint32_t epoch, uint64_t first_seq, uint32_t count) {
      FUZZ_CHECK(epoch == flow + 7);
      for (uint32_t i = 0; i < count; ++i) {
        FUZZ_CHECK(left.emplace(first_seq + i, flow).second);
      }
    });
    FUZZ_CHECK(left == open);
  }
  std::map<uint64_t, Outcome> told;
  for (const Result& result : joined) {
    for (uint32_t i = 0; i < result.count; ++i) {
      FUZZ_CHECK(told.emplace(result.first_seq + i, result.outcome).second);
    }
  }
  FUZZ_CHECK(told == counted);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  switch (in.Take<uint8_t>() % 4) {
    case 0:
      CheckForeignStream(in);
      break;
    case 1:
      CheckOwnStream(in);
      break;
    case 2:
      CheckOutcomes(in);
      break;
    default:
      CheckBody(static_cast<FrameType>(1 + in.Below(6)), in.rest());
  }
  return 0;
}
