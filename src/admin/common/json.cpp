#include "admin/common/json.h"

#include <cstdio>

namespace outbox::admin {

void AppendJson(std::string_view text, std::string* json) {
  *json += '"';
  for (char c : text) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ') {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      *json += escaped;
    } else {
      *json += c;
    }
  }
  *json += '"';
}

JsonObject& JsonObject::Add(const char* name, const Cell& value) {
  if (value) {
    std::string json;
    AppendJson(*value, &json);
    AddRaw(name, json);
  }
  return *this;
}

JsonObject& JsonObject::Add(const char* name, int64 number) {
  return AddRaw(name, std::to_string(number));
}

JsonObject& JsonObject::AddRaw(const char* name, const std::string& json) {
  text_ += text_.size() > 1 ? ", " : "";
  AppendJson(name, &text_);
  text_ += ": " + json;
  return *this;
}

}  // namespace outbox::admin
