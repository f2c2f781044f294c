#include "base/near_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/letter_case.h"

namespace outbox {
namespace {

constexpr size_t kMostNames = 3;
constexpr size_t kLongestName = 100;

// Source: Levenshtein's distance with one row, Wagner and Fischer 1974.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t above = row[j + 1];
      row[j + 1] = std::min({diagonal + (a[i] == b[j] ? 0 : 1), above + 1, row[j] + 1});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string FoldedName(std::string_view name) {
  std::string folded(name.substr(0, kLongestName));
  for (char& c : folded) {
    c = c == '_' || c == '-' ? '.' : Lower(c);
  }
  return folded;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string_view>& names) {
  const std::string folded = FoldedName(name);
  const size_t farthest = std::max<size_t>(2, folded.size() / 3);
  std::vector<std::pair<size_t, std::string_view>> near;
  for (const std::string_view one : names) {
    const std::string candidate = FoldedName(one);
    if (std::max(folded.size(), candidate.size()) - std::min(folded.size(), candidate.size()) > farthest) {
      continue;  // the distance is at least that
    }
    const size_t distance = Distance(folded, candidate);
    if (distance <= farthest) {
      near.emplace_back(distance, one);
    }
  }
  std::sort(near.begin(), near.end());
  near.resize(std::min(near.size(), kMostNames));
  std::string text;
  for (size_t i = 0; i < near.size(); ++i) {
    text += i == 0 ? "Did you mean \"" : i + 1 == near.size() ? " or \"" : ", \"";
    text += near[i].second;
    text += '"';
  }
  return text.empty() ? text : text + "?";
}

}  // namespace outbox
