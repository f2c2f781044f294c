// Topic and key templates: refused with a reason, or expanded to what an independent reading of the rules gives.
// Input: one byte of use, then lines: template, aggregate type, aggregate id, event type.
#include <algorithm>

#include "base/topic_name.h"
#include "format/header_name.h"
#include "format/template.h"
#include "fuzz.h"

using namespace outbox;
using namespace outbox::format;

namespace {

bool IsUpper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool IsSeparator(char c) {
  return c == '-' || c == '_' || c == ' ';
}

std::string Lower(std::string_view text) {
  std::string out;
  AppendLower(text, &out);
  return out;
}
std::string Kebab(std::string_view text) {
  std::string out;
  AppendKebab(text, &out);
  return out;
}

std::string WithoutSeparators(std::string_view text) {
  std::string out;
  std::copy_if(text.begin(), text.end(), std::back_inserter(out), [](char c) { return !IsSeparator(c); });
  return out;
}

void CheckModifiers(const std::string& text) {
  const std::string lower = Lower(text);
  FUZZ_CHECK(lower.size() == text.size() && std::none_of(lower.begin(), lower.end(), IsUpper));
  FUZZ_CHECK(Lower(lower) == lower);
  const std::string kebab = Kebab(text);
  FUZZ_CHECK(Kebab(kebab) == kebab);
  FUZZ_CHECK(WithoutSeparators(kebab) == WithoutSeparators(lower));
  FUZZ_CHECK(kebab.find_first_of("_ ") == std::string::npos && kebab.find("--") == std::string::npos);
  FUZZ_CHECK(!kebab.starts_with('-') && !kebab.ends_with('-'));
  std::string appended = "before-";
  AppendKebab(text, &appended);
  FUZZ_CHECK(appended == "before-" + kebab);
}

void CheckNames(const std::string& name) {
  if (BadPortableTopic(name) == nullptr) {
    FUZZ_CHECK(!name.empty() && name.size() <= 249 && name != "." && name != "..");
    FUZZ_CHECK(std::all_of(name.begin(), name.end(), IsPortableTopicCharacter));
    FUZZ_CHECK(BadFreeTopic(name) == nullptr);
  }
  if (BadFreeTopic(name) == nullptr) {
    FUZZ_CHECK(!name.empty() && name.size() <= 512 &&
               name.find_first_of(std::string("\0\r\n", 3)) == std::string::npos);
  }
  const std::string lower = Lower(name);
  FUZZ_CHECK((BadHeaderName(name) == nullptr) == (BadHeaderName(lower) == nullptr));
  FUZZ_CHECK(lower != "id" || BadHeaderName(name) != nullptr);
}

// Braces doubled, every text is a key template for itself.
void CheckLiteral(std::string_view text) {
  std::string doubled;
  for (char c : text) {
    doubled.append(c == '{' || c == '}' ? 2 : 1, c);
  }
  TemplateError error;
  auto literal = Template::ParseKey(doubled, &error);
  FUZZ_CHECK(literal.has_value() == !text.empty());
  if (literal) {
    std::string out;
    literal->Expand("type", "id", "event", &out);
    FUZZ_CHECK(out == text && !literal->uses_aggregate_id());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  // A key, or a topic as one of the kinds takes it. The corpus knows 0: without an id, 1: with one, 2: a key.
  const uint8_t use = in.Take<uint8_t>() % 3;
  const sink::TopicTemplateRules* rules =
      use == 2 ? nullptr : sink::FindKind(use == 0 ? "outbox_kafka" : "outbox_redis")->topic_template;
  const std::string text(in.Line());
  const std::string type(in.Line());
  const std::string id(in.Line());
  const std::string event(in.Line());
  CheckModifiers(type);
  CheckNames(type);
  CheckLiteral(type);

  TemplateError error;
  auto parsed = rules == nullptr ? Template::ParseKey(text, &error) : Template::ParseTopic(text, *rules, &error);
  if (!parsed) {
    FUZZ_CHECK(error.position <= text.size() && !error.message.empty() && error.hint.ends_with('.'));
    FUZZ_CHECK(!fuzz::IsUtf8(text) || (fuzz::IsUtf8(error.message) && fuzz::IsUtf8(error.hint)));
    return 0;
  }
  std::string out = "kept";
  parsed->Expand(type, id, event, &out);
  FUZZ_CHECK(out.starts_with("kept"));
  out.erase(0, 4);
  if (rules != nullptr && !rules->aggregate_id) {
    FUZZ_CHECK(!parsed->uses_aggregate_id());
    FUZZ_CHECK(fuzz::IsUtf8(text));
  }
  if (parsed->is_aggregate_id()) {
    FUZZ_CHECK(out == id && parsed->uses_aggregate_id());
  }
  std::string other;
  parsed->Expand(type, id + "2", event, &other);
  FUZZ_CHECK((other == out) == !parsed->uses_aggregate_id());
  // Only whole characters are put together, so what was well-formed stays it.
  if (fuzz::IsUtf8(text) && fuzz::IsUtf8(type) && fuzz::IsUtf8(id) && fuzz::IsUtf8(event)) {
    FUZZ_CHECK(fuzz::IsUtf8(out));
  }
  return 0;
}
