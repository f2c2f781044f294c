#include "base/status.h"

namespace outbox {

const char* ErrorClassName(ErrorClass error_class) {
  switch (error_class) {
    case ErrorClass::kNone:
      return "";
    case ErrorClass::kMessage:
      return "message";
    case ErrorClass::kSolo:
      return "solo-retry";
    case ErrorClass::kTopic:
      return "topic";
    case ErrorClass::kDestination:
      return "destination";
    case ErrorClass::kConfig:
      return "config";
    case ErrorClass::kFatalClient:
      return "fatal client";
    case ErrorClass::kInternal:
      return "internal";
  }
  return "internal";
}

}  // namespace outbox
