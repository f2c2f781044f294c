#include "sink/kafka/errors.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>

namespace outbox::sink::kafka {
namespace {

using C = ErrorClass;
using V = Verdict;

// Sorted by code. The reasons are in the comments where the name does not say them.
constexpr ErrorRule kRules[] = {
    {-199, "_BAD_MSG", V::kRefused, C::kDestination, false},
    {-198, "_BAD_COMPRESSION", V::kRefused, C::kDestination, false},
    {-197, "_DESTROY", V::kRetry, C::kNone, false},
    {-196, "_FAIL", V::kRefused, C::kDestination, false},
    {-195, "_TRANSPORT", V::kRetry, C::kNone, false},
    {-194, "_CRIT_SYS_RESOURCE", V::kRefused, C::kDestination, false},
    {-193, "_RESOLVE", V::kRefused, C::kDestination, false},
    {-192, "_MSG_TIMED_OUT", V::kRetry, C::kNone, false},  // cannot happen with message.timeout.ms=0
    {-190, "_UNKNOWN_PARTITION", V::kRefused, C::kTopic, false},
    {-189, "_FS", V::kRefused, C::kDestination, false},
    {-188, "_UNKNOWN_TOPIC", V::kRefused, C::kTopic, false},
    {-187, "_ALL_BROKERS_DOWN", V::kRefused, C::kDestination, false},
    {-186, "_INVALID_ARG", V::kRefused, C::kInternal, false},
    {-185, "_TIMED_OUT", V::kRetry, C::kNone, false},
    {-184, "_QUEUE_FULL", V::kRetry, C::kNone, false},  // back-pressure; never seen in a report
    {-181, "_SSL", V::kRefused, C::kConfig, false},
    {-173, "_CONFLICT", V::kRefused, C::kInternal, false},
    {-172, "_STATE", V::kRefused, C::kInternal, false},
    {-170, "_NOT_IMPLEMENTED", V::kRefused, C::kInternal, false},
    {-169, "_AUTHENTICATION", V::kRefused, C::kConfig, false},
    {-166, "_TIMED_OUT_QUEUE", V::kRetry, C::kNone, false},
    {-165, "_UNSUPPORTED_FEATURE", V::kRefused, C::kConfig, false},
    {-163, "_INTR", V::kRetry, C::kNone, false},
    {-153, "_RETRY", V::kRetry, C::kNone, false},
    {-152, "_PURGE_QUEUE", V::kRetry, C::kNone, false},
    {-151, "_PURGE_INFLIGHT", V::kRetry, C::kNone, false},
    {-150, "_FATAL", V::kRetry, C::kNone, false},
    {-149, "_INCONSISTENT", V::kRetry, C::kNone, false},
    {-148, "_GAPLESS_GUARANTEE", V::kRetry, C::kNone, false},
    {-144, "_FENCED", V::kRetry, C::kNone, false},
    {-138, "_INVALID_DIFFERENT_RECORD", V::kRetry, C::kNone, false},  // a neighbour was invalid, not this one
    {-1, "UNKNOWN", V::kRefused, C::kDestination, false},             // what the broker makes of its own bugs
    {2, "INVALID_MSG", V::kBatch, C::kDestination, false},            // bad checksum: usually the network
    {3, "UNKNOWN_TOPIC_OR_PART", V::kRefused, C::kTopic, false},
    {4, "INVALID_MSG_SIZE", V::kBatch, C::kMessage, false},
    {5, "LEADER_NOT_AVAILABLE", V::kRetry, C::kNone, false},
    {6, "NOT_LEADER_FOR_PARTITION", V::kRetry, C::kNone, false},
    {7, "REQUEST_TIMED_OUT", V::kRetry, C::kNone, false},
    {8, "BROKER_NOT_AVAILABLE", V::kRefused, C::kDestination, false},
    {9, "REPLICA_NOT_AVAILABLE", V::kRefused, C::kDestination, false},
    {10, "MSG_SIZE_TOO_LARGE", V::kBatch, C::kMessage, true},
    {13, "NETWORK_EXCEPTION", V::kRetry, C::kNone, false},
    {17, "TOPIC_EXCEPTION", V::kRefused, C::kTopic, false},
    {18, "RECORD_LIST_TOO_LARGE", V::kBatch, C::kMessage, true},
    {19, "NOT_ENOUGH_REPLICAS", V::kRefused, C::kDestination, false},
    {20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", V::kRefused, C::kDestination, false},
    {21, "INVALID_REQUIRED_ACKS", V::kRefused, C::kConfig, false},
    {29, "TOPIC_AUTHORIZATION_FAILED", V::kRefused, C::kTopic, false},
    {31, "CLUSTER_AUTHORIZATION_FAILED", V::kRefused, C::kConfig, false},
    {32, "INVALID_TIMESTAMP", V::kRefused, C::kTopic, false},  // the topic's setting or a clock, never the event
    {33, "UNSUPPORTED_SASL_MECHANISM", V::kRefused, C::kConfig, false},
    {34, "ILLEGAL_SASL_STATE", V::kRefused, C::kConfig, false},
    {35, "UNSUPPORTED_VERSION", V::kRefused, C::kConfig, false},
    {43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", V::kRefused, C::kConfig, false},
    {44, "POLICY_VIOLATION", V::kBatch, C::kTopic, false},
    {45, "OUT_OF_ORDER_SEQUENCE_NUMBER", V::kRetry, C::kNone, false},
    {46, "DUPLICATE_SEQUENCE_NUMBER", V::kRetry, C::kNone, false},  // the library makes a success of it
    {47, "INVALID_PRODUCER_EPOCH", V::kRetry, C::kNone, false},
    {48, "INVALID_TXN_STATE", V::kRetry, C::kNone, false},
    {49, "INVALID_PRODUCER_ID_MAPPING", V::kRetry, C::kNone, false},
    {53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", V::kRefused, C::kConfig, false},
    {54, "SECURITY_DISABLED", V::kRefused, C::kConfig, false},
    {56, "KAFKA_STORAGE_ERROR", V::kRefused, C::kDestination, false},
    {57, "LOG_DIR_NOT_FOUND", V::kRefused, C::kDestination, false},
    {58, "SASL_AUTHENTICATION_FAILED", V::kRefused, C::kConfig, false},
    {59, "UNKNOWN_PRODUCER_ID", V::kRetry, C::kNone, false},
    {72, "LISTENER_NOT_FOUND", V::kRefused, C::kDestination, false},
    {74, "FENCED_LEADER_EPOCH", V::kRetry, C::kNone, false},
    {75, "UNKNOWN_LEADER_EPOCH", V::kRetry, C::kNone, false},
    {76, "UNSUPPORTED_COMPRESSION_TYPE", V::kRefused, C::kConfig, false},
    {87, "INVALID_RECORD", V::kBatch, C::kMessage, false},
    {89, "THROTTLING_QUOTA_EXCEEDED", V::kRefused, C::kDestination, false},
    {90, "PRODUCER_FENCED", V::kRetry, C::kNone, false},
    {97, "PRINCIPAL_DESERIALIZATION_FAILURE", V::kRefused, C::kConfig, false},
    {100, "UNKNOWN_TOPIC_ID", V::kRefused, C::kTopic, false},
    {103, "INCONSISTENT_TOPIC_ID", V::kRefused, C::kTopic, false},
    {120, "TRANSACTION_ABORTABLE", V::kRetry, C::kNone, false},
};

constexpr ErrorRule kOther = {0, "", V::kRefused, C::kDestination, false};

}  // namespace

std::span<const ErrorRule> ErrorRules() {
  return kRules;
}

const ErrorRule& RuleFor(int code) {
  const auto* found = std::lower_bound(std::begin(kRules), std::end(kRules), code,
                                       [](const ErrorRule& rule, int wanted) { return rule.code < wanted; });
  return found != std::end(kRules) && found->code == code ? *found : kOther;
}

Error MakeError(int code, ErrorClass error_class, std::string detail) {
  const ErrorRule& rule = RuleFor(code);
  if (detail.empty()) {
    detail = rd_kafka_err2str(static_cast<rd_kafka_resp_err_t>(code));
  }
  return {error_class, rule.code == code ? rule.name : "KAFKA_" + std::to_string(code), std::move(detail)};
}

ErrorClass EventClass(int code) {
  const ErrorRule& rule = RuleFor(code);
  return rule.error_class == ErrorClass::kConfig ? ErrorClass::kConfig : ErrorClass::kDestination;
}

}  // namespace outbox::sink::kafka
