// Text in the form of java.util.Properties [-], as Debezium's libraries write a trace's context into an outbox table.
#pragma once

#include <string_view>

namespace outbox {

// Reads one property after the other. `scratch` has room for as many bytes as the text has; the views that Next() hands
// out point there. A property with an escape for a character that is not ASCII is left out.
class JavaProperties {
 public:
  JavaProperties(std::string_view text, char* scratch)
      : at_(text.data()), end_(text.data() + text.size()), scratch_(scratch) {}

  // False: there is none left.
  bool Next(std::string_view* name, std::string_view* value);

 private:
  bool Blank() const { return *at_ == ' ' || *at_ == '\t' || *at_ == '\f'; }
  bool LineEnd() const { return *at_ == '\n' || *at_ == '\r'; }
  void SkipBlanks();
  void SkipLine();
  bool AtContinuation() const;
  void SkipContinuation();
  // Up to the end of the line, or of the name; escapes are taken out.
  std::string_view Part(bool name);
  void Escape();

  const char* at_;
  const char* end_;
  char* scratch_;
  bool good_ = true;
};

}  // namespace outbox
