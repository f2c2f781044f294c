#include "base/snapshot.h"

#include <algorithm>
#include <charconv>

namespace outbox {

namespace {

void AppendNumber(uint64_t number, std::string* out) {
  char digits[20];
  auto [end, error] = std::to_chars(digits, digits + sizeof(digits), number);
  out->append(digits, end);
}

// Takes digits off the front of *text. Returns false if there are none or they do not fit.
bool TakeNumber(std::string_view* text, uint64_t* number) {
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc()) {
    return false;
  }
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

bool Take(std::string_view* text, char c) {
  if (text->empty() || text->front() != c) {
    return false;
  }
  text->remove_prefix(1);
  return true;
}

}  // namespace

bool Snapshot::Visible(uint64_t xid) const {
  if (xid < xmin) {
    return true;
  }
  if (xid >= xmax) {
    return false;
  }
  return !std::binary_search(xip.begin(), xip.end(), xid);
}

// What `this` does not see below other.xmax must be unseen by `other` too.
bool Snapshot::Covers(const Snapshot& other) const {
  if (xmax < other.xmax) {
    // Everything in [xmax, other.xmax) would have to be in progress in `other`.
    const auto tail = std::lower_bound(other.xip.begin(), other.xip.end(), xmax);
    if (static_cast<uint64_t>(other.xip.end() - tail) != other.xmax - xmax) {
      return false;
    }
  }
  return std::all_of(xip.begin(), xip.end(), [&](uint64_t xid) { return !other.Visible(xid); });
}

std::string Snapshot::ToText() const {
  std::string text;
  text.reserve(42 + xip.size() * 8);
  AppendNumber(xmin, &text);
  text += ':';
  AppendNumber(xmax, &text);
  text += ':';
  for (size_t i = 0; i < xip.size(); ++i) {
    if (i > 0) {
      text += ',';
    }
    AppendNumber(xip[i], &text);
  }
  return text;
}

std::optional<Snapshot> Snapshot::FromText(std::string_view text) {
  Snapshot snapshot;
  if (!TakeNumber(&text, &snapshot.xmin) || !Take(&text, ':') || !TakeNumber(&text, &snapshot.xmax) ||
      !Take(&text, ':') || snapshot.xmin == 0 || snapshot.xmin > snapshot.xmax) {
    return std::nullopt;
  }
  while (!text.empty()) {
    uint64_t xid = 0;
    if (!snapshot.xip.empty() && !Take(&text, ',')) {
      return std::nullopt;
    }
    if (!TakeNumber(&text, &xid) || xid < snapshot.xmin || xid >= snapshot.xmax ||
        (!snapshot.xip.empty() && xid <= snapshot.xip.back())) {
      return std::nullopt;
    }
    snapshot.xip.push_back(xid);
  }
  return snapshot;
}

XidRange WindowXids(const Snapshot& from, const Snapshot& to) {
  XidRange range;
  range.begin = from.xmax;
  range.end = to.xmax;
  if (range.begin > range.end) {
    range.end = range.begin;
  }
  for (uint64_t xid : from.xip) {
    if (to.Visible(xid)) {
      range.late.push_back(xid);
    }
  }
  return range;
}

}  // namespace outbox
