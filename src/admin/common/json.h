// JSON text, made by hand [P]: for details of the audit.
#pragma once

#include <string>
#include <string_view>

#include "admin/common/query.h"

namespace outbox::admin {

// As a JSON string, quotes included.
void AppendJson(std::string_view text, std::string* json);

class JsonObject {
 public:
  // Nothing is added for NULL.
  JsonObject& Add(const char* name, const Cell& value);
  JsonObject& Add(const char* name, int64 number);
  JsonObject& AddRaw(const char* name, const std::string& json);
  std::string Text() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

}  // namespace outbox::admin
