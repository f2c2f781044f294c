#include "sink/kafka/errors.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>

namespace outbox::sink::kafka {
namespace {

using C = ErrorClass;
using V = Verdict;

using N = Note;

// Sorted by code. All that librdkafka 2.15 and Kafka 4.1 know; codes of consuming and of administration are here too,
// as destination trouble with a cap: none of them is expected from producing.
constexpr ErrorRule kRules[] = {
    {-199, "_BAD_MSG", V::kRefused, C::kDestination, N::kNone},
    {-198, "_BAD_COMPRESSION", V::kRefused, C::kDestination, N::kNone},
    {-197, "_DESTROY", V::kRetry, C::kDestination, N::kNone},
    {-196, "_FAIL", V::kRefused, C::kDestination, N::kNone},
    {-195, "_TRANSPORT", V::kRetry, C::kDestination, N::kNone},
    {-194, "_CRIT_SYS_RESOURCE", V::kRefused, C::kDestination, N::kNone},
    {-193, "_RESOLVE", V::kRefused, C::kDestination, N::kNone},
    {-192, "_MSG_TIMED_OUT", V::kRetry, C::kDestination, N::kNone},  // cannot happen with message.timeout.ms=0
    {-191, "_PARTITION_EOF", V::kRefused, C::kDestination, N::kCapped},
    {-190, "_UNKNOWN_PARTITION", V::kRefused, C::kTopic, N::kNone},
    {-189, "_FS", V::kRefused, C::kDestination, N::kNone},
    {-188, "_UNKNOWN_TOPIC", V::kRefused, C::kTopic, N::kNone},
    {-187, "_ALL_BROKERS_DOWN", V::kRefused, C::kDestination, N::kNone},
    {-186, "_INVALID_ARG", V::kRefused, C::kInternal, N::kNone},
    {-185, "_TIMED_OUT", V::kRetry, C::kDestination, N::kNone},
    {-184, "_QUEUE_FULL", V::kRetry, C::kNone, N::kNone},  // back-pressure; never seen in a report
    {-183, "_ISR_INSUFF", V::kRefused, C::kDestination, N::kNone},
    {-182, "_NODE_UPDATE", V::kRefused, C::kDestination, N::kCapped},
    {-181, "_SSL", V::kRefused, C::kConfig, N::kNone},
    {-180, "_WAIT_COORD", V::kRefused, C::kDestination, N::kCapped},
    {-179, "_UNKNOWN_GROUP", V::kRefused, C::kDestination, N::kCapped},
    {-178, "_IN_PROGRESS", V::kRefused, C::kDestination, N::kCapped},
    {-177, "_PREV_IN_PROGRESS", V::kRefused, C::kDestination, N::kCapped},
    {-176, "_EXISTING_SUBSCRIPTION", V::kRefused, C::kDestination, N::kCapped},
    {-175, "_ASSIGN_PARTITIONS", V::kRefused, C::kDestination, N::kCapped},
    {-174, "_REVOKE_PARTITIONS", V::kRefused, C::kDestination, N::kCapped},
    {-173, "_CONFLICT", V::kRefused, C::kInternal, N::kNone},
    {-172, "_STATE", V::kRefused, C::kInternal, N::kNone},
    {-171, "_UNKNOWN_PROTOCOL", V::kRefused, C::kDestination, N::kCapped},
    {-170, "_NOT_IMPLEMENTED", V::kRefused, C::kInternal, N::kNone},
    {-169, "_AUTHENTICATION", V::kRefused, C::kConfig, N::kNone},
    {-168, "_NO_OFFSET", V::kRefused, C::kDestination, N::kCapped},
    {-167, "_OUTDATED", V::kRefused, C::kDestination, N::kCapped},
    {-166, "_TIMED_OUT_QUEUE", V::kRetry, C::kDestination, N::kNone},
    {-165, "_UNSUPPORTED_FEATURE", V::kRefused, C::kConfig, N::kNone},
    {-164, "_WAIT_CACHE", V::kRefused, C::kDestination, N::kCapped},
    {-163, "_INTR", V::kRetry, C::kDestination, N::kNone},
    {-162, "_KEY_SERIALIZATION", V::kRefused, C::kDestination, N::kCapped},
    {-161, "_VALUE_SERIALIZATION", V::kRefused, C::kDestination, N::kCapped},
    {-160, "_KEY_DESERIALIZATION", V::kRefused, C::kDestination, N::kCapped},
    {-159, "_VALUE_DESERIALIZATION", V::kRefused, C::kDestination, N::kCapped},
    {-158, "_PARTIAL", V::kRefused, C::kDestination, N::kCapped},
    {-157, "_READ_ONLY", V::kRefused, C::kDestination, N::kCapped},
    {-156, "_NOENT", V::kRefused, C::kDestination, N::kCapped},
    {-155, "_UNDERFLOW", V::kRefused, C::kDestination, N::kCapped},
    {-154, "_INVALID_TYPE", V::kRefused, C::kDestination, N::kCapped},
    {-153, "_RETRY", V::kRetry, C::kDestination, N::kNone},
    {-152, "_PURGE_QUEUE", V::kRetry, C::kNone, N::kNone},
    {-151, "_PURGE_INFLIGHT", V::kRetry, C::kNone, N::kNone},
    {-150, "_FATAL", V::kRetry, C::kFatalClient, N::kNone},
    {-149, "_INCONSISTENT", V::kRetry, C::kFatalClient, N::kNone},
    {-148, "_GAPLESS_GUARANTEE", V::kRetry, C::kFatalClient, N::kNone},
    {-147, "_MAX_POLL_EXCEEDED", V::kRefused, C::kDestination, N::kCapped},
    {-146, "_UNKNOWN_BROKER", V::kRefused, C::kDestination, N::kCapped},
    {-145, "_NOT_CONFIGURED", V::kRefused, C::kDestination, N::kCapped},
    {-144, "_FENCED", V::kRetry, C::kFatalClient, N::kNone},
    {-143, "_APPLICATION", V::kRefused, C::kDestination, N::kCapped},
    {-142, "_ASSIGNMENT_LOST", V::kRefused, C::kDestination, N::kCapped},
    {-141, "_NOOP", V::kRefused, C::kDestination, N::kCapped},
    {-140, "_AUTO_OFFSET_RESET", V::kRefused, C::kDestination, N::kCapped},
    {-139, "_LOG_TRUNCATION", V::kRefused, C::kDestination, N::kCapped},
    {-138, "_INVALID_DIFFERENT_RECORD", V::kRetry, C::kNone, N::kNone},  // a neighbour was invalid, not this one
    {-137, "_DESTROY_BROKER", V::kRetry, C::kDestination, N::kNone},
    {-1, "UNKNOWN", V::kRefused, C::kDestination, N::kCapped},  // what the broker makes of its own bugs
    {1, "OFFSET_OUT_OF_RANGE", V::kRefused, C::kDestination, N::kCapped},
    {2, "INVALID_MSG", V::kBatch, C::kDestination,
     N::kCapped},  // bad checksum, usually the network; a compacted topic of an old broker
    {3, "UNKNOWN_TOPIC_OR_PART", V::kRefused, C::kTopic, N::kNone},
    {4, "INVALID_MSG_SIZE", V::kRefused, C::kDestination, N::kCapped},  // a fetch's; nothing about a record
    {5, "LEADER_NOT_AVAILABLE", V::kRetry, C::kDestination, N::kNone},
    {6, "NOT_LEADER_FOR_PARTITION", V::kRetry, C::kDestination, N::kNone},
    {7, "REQUEST_TIMED_OUT", V::kRetry, C::kDestination, N::kNone},
    {8, "BROKER_NOT_AVAILABLE", V::kRefused, C::kDestination, N::kNone},
    {9, "REPLICA_NOT_AVAILABLE", V::kRefused, C::kDestination,
     N::kCapped},  // of one partition, so perhaps of one topic only: capped
    {10, "MSG_SIZE_TOO_LARGE", V::kBatch, C::kMessage, N::kSize},
    {11, "STALE_CTRL_EPOCH", V::kRefused, C::kDestination, N::kCapped},
    {12, "OFFSET_METADATA_TOO_LARGE", V::kRefused, C::kDestination, N::kCapped},
    {13, "NETWORK_EXCEPTION", V::kRetry, C::kDestination, N::kNone},
    {14, "COORDINATOR_LOAD_IN_PROGRESS", V::kRefused, C::kDestination, N::kNone},
    {15, "COORDINATOR_NOT_AVAILABLE", V::kRefused, C::kDestination, N::kNone},
    {16, "NOT_COORDINATOR", V::kRefused, C::kDestination, N::kNone},
    {17, "TOPIC_EXCEPTION", V::kRefused, C::kTopic, N::kNone},
    {18, "RECORD_LIST_TOO_LARGE", V::kBatch, C::kMessage, N::kSize},
    {19, "NOT_ENOUGH_REPLICAS", V::kRefused, C::kDestination, N::kCapped},
    {20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", V::kRefused, C::kDestination, N::kCapped},
    {21, "INVALID_REQUIRED_ACKS", V::kRefused, C::kConfig, N::kNone},
    {22, "ILLEGAL_GENERATION", V::kRefused, C::kDestination, N::kCapped},
    {23, "INCONSISTENT_GROUP_PROTOCOL", V::kRefused, C::kDestination, N::kCapped},
    {24, "INVALID_GROUP_ID", V::kRefused, C::kDestination, N::kCapped},
    {25, "UNKNOWN_MEMBER_ID", V::kRefused, C::kDestination, N::kCapped},
    {26, "INVALID_SESSION_TIMEOUT", V::kRefused, C::kDestination, N::kCapped},
    {27, "REBALANCE_IN_PROGRESS", V::kRefused, C::kDestination, N::kCapped},
    {28, "INVALID_COMMIT_OFFSET_SIZE", V::kRefused, C::kDestination, N::kCapped},
    {29, "TOPIC_AUTHORIZATION_FAILED", V::kRefused, C::kTopic, N::kNone},
    {30, "GROUP_AUTHORIZATION_FAILED", V::kRefused, C::kConfig, N::kNone},
    {31, "CLUSTER_AUTHORIZATION_FAILED", V::kRefused, C::kConfig, N::kNone},
    {32, "INVALID_TIMESTAMP", V::kBatch, C::kSolo, N::kNone},  // or of another class: TopicLimits::ClassOfTimestamp()
    {33, "UNSUPPORTED_SASL_MECHANISM", V::kRefused, C::kConfig, N::kNone},
    {34, "ILLEGAL_SASL_STATE", V::kRefused, C::kConfig, N::kNone},
    {35, "UNSUPPORTED_VERSION", V::kRefused, C::kConfig, N::kNone},
    {36, "TOPIC_ALREADY_EXISTS", V::kRefused, C::kDestination, N::kCapped},
    {37, "INVALID_PARTITIONS", V::kRefused, C::kTopic, N::kNone},  // 37 to 40: the broker was to make the topic
    {38, "INVALID_REPLICATION_FACTOR", V::kRefused, C::kTopic, N::kNone},
    {39, "INVALID_REPLICA_ASSIGNMENT", V::kRefused, C::kTopic, N::kNone},
    {40, "INVALID_CONFIG", V::kRefused, C::kTopic, N::kNone},
    {41, "NOT_CONTROLLER", V::kRefused, C::kDestination, N::kCapped},
    {42, "INVALID_REQUEST", V::kRefused, C::kDestination, N::kCapped},
    {43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", V::kRefused, C::kConfig, N::kNone},
    {44, "POLICY_VIOLATION", V::kBatch, C::kTopic, N::kNone},
    {45, "OUT_OF_ORDER_SEQUENCE_NUMBER", V::kRetry, C::kFatalClient, N::kNone},
    // The library makes a success of it, without an offset; the sink doubts such ones under this code.
    {46, "DUPLICATE_SEQUENCE_NUMBER", V::kRetry, C::kFatalClient, N::kNone},
    {47, "INVALID_PRODUCER_EPOCH", V::kRetry, C::kFatalClient, N::kNone},
    {48, "INVALID_TXN_STATE", V::kRetry, C::kFatalClient, N::kNone},
    {49, "INVALID_PRODUCER_ID_MAPPING", V::kRetry, C::kFatalClient, N::kNone},
    {50, "INVALID_TRANSACTION_TIMEOUT", V::kRefused, C::kConfig, N::kNone},
    {51, "CONCURRENT_TRANSACTIONS", V::kRefused, C::kDestination, N::kNone},
    {52, "TRANSACTION_COORDINATOR_FENCED", V::kRetry, C::kFatalClient, N::kNone},
    {53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", V::kRefused, C::kConfig, N::kNone},
    {54, "SECURITY_DISABLED", V::kRefused, C::kConfig, N::kNone},
    {55, "OPERATION_NOT_ATTEMPTED", V::kRefused, C::kDestination, N::kCapped},
    {56, "KAFKA_STORAGE_ERROR", V::kRefused, C::kDestination, N::kCapped},
    {57, "LOG_DIR_NOT_FOUND", V::kRefused, C::kDestination, N::kCapped},
    {58, "SASL_AUTHENTICATION_FAILED", V::kRefused, C::kConfig, N::kNone},
    {59, "UNKNOWN_PRODUCER_ID", V::kRetry, C::kFatalClient, N::kNone},
    {60, "REASSIGNMENT_IN_PROGRESS", V::kRefused, C::kDestination, N::kCapped},
    {61, "DELEGATION_TOKEN_AUTH_DISABLED", V::kRefused, C::kConfig, N::kNone},
    {62, "DELEGATION_TOKEN_NOT_FOUND", V::kRefused, C::kConfig, N::kNone},
    {63, "DELEGATION_TOKEN_OWNER_MISMATCH", V::kRefused, C::kConfig, N::kNone},
    {64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", V::kRefused, C::kConfig, N::kNone},
    {65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", V::kRefused, C::kConfig, N::kNone},
    {66, "DELEGATION_TOKEN_EXPIRED", V::kRefused, C::kConfig, N::kNone},
    {67, "INVALID_PRINCIPAL_TYPE", V::kRefused, C::kDestination, N::kCapped},
    {68, "NON_EMPTY_GROUP", V::kRefused, C::kDestination, N::kCapped},
    {69, "GROUP_ID_NOT_FOUND", V::kRefused, C::kDestination, N::kCapped},
    {70, "FETCH_SESSION_ID_NOT_FOUND", V::kRefused, C::kDestination, N::kCapped},
    {71, "INVALID_FETCH_SESSION_EPOCH", V::kRefused, C::kDestination, N::kCapped},
    {72, "LISTENER_NOT_FOUND", V::kRefused, C::kDestination, N::kCapped},
    {73, "TOPIC_DELETION_DISABLED", V::kRefused, C::kDestination, N::kCapped},
    {74, "FENCED_LEADER_EPOCH", V::kRetry, C::kDestination, N::kNone},
    {75, "UNKNOWN_LEADER_EPOCH", V::kRetry, C::kDestination, N::kNone},
    {76, "UNSUPPORTED_COMPRESSION_TYPE", V::kRefused, C::kConfig, N::kNone},
    {77, "STALE_BROKER_EPOCH", V::kRefused, C::kDestination, N::kCapped},
    {78, "OFFSET_NOT_AVAILABLE", V::kRefused, C::kDestination, N::kCapped},
    {79, "MEMBER_ID_REQUIRED", V::kRefused, C::kDestination, N::kCapped},
    {80, "PREFERRED_LEADER_NOT_AVAILABLE", V::kRefused, C::kDestination, N::kCapped},
    {81, "GROUP_MAX_SIZE_REACHED", V::kRefused, C::kDestination, N::kCapped},
    {82, "FENCED_INSTANCE_ID", V::kRefused, C::kDestination, N::kCapped},
    {83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", V::kRefused, C::kDestination, N::kCapped},
    {84, "ELECTION_NOT_NEEDED", V::kRefused, C::kDestination, N::kCapped},
    {85, "NO_REASSIGNMENT_IN_PROGRESS", V::kRefused, C::kDestination, N::kCapped},
    {86, "GROUP_SUBSCRIBED_TO_TOPIC", V::kRefused, C::kDestination, N::kCapped},
    // Refused by broker-side checks: a schema that is not registered yet, a topic that requires keys at the moment.
    {87, "INVALID_RECORD", V::kBatch, C::kSolo, N::kNone},
    {88, "UNSTABLE_OFFSET_COMMIT", V::kRefused, C::kDestination, N::kCapped},
    {89, "THROTTLING_QUOTA_EXCEEDED", V::kRefused, C::kDestination, N::kNone},
    {90, "PRODUCER_FENCED", V::kRetry, C::kFatalClient, N::kNone},
    {91, "RESOURCE_NOT_FOUND", V::kRefused, C::kDestination, N::kCapped},
    {92, "DUPLICATE_RESOURCE", V::kRefused, C::kDestination, N::kCapped},
    {93, "UNACCEPTABLE_CREDENTIAL", V::kRefused, C::kConfig, N::kNone},
    {94, "INCONSISTENT_VOTER_SET", V::kRefused, C::kDestination, N::kCapped},
    {95, "INVALID_UPDATE_VERSION", V::kRefused, C::kDestination, N::kCapped},
    {96, "FEATURE_UPDATE_FAILED", V::kRefused, C::kDestination, N::kCapped},
    {97, "PRINCIPAL_DESERIALIZATION_FAILURE", V::kRefused, C::kConfig, N::kNone},
    {98, "SNAPSHOT_NOT_FOUND", V::kRefused, C::kDestination, N::kCapped},
    {99, "POSITION_OUT_OF_RANGE", V::kRefused, C::kDestination, N::kCapped},
    {100, "UNKNOWN_TOPIC_ID", V::kRefused, C::kTopic, N::kNone},
    {101, "DUPLICATE_BROKER_REGISTRATION", V::kRefused, C::kDestination, N::kCapped},
    {102, "BROKER_ID_NOT_REGISTERED", V::kRefused, C::kDestination, N::kCapped},
    {103, "INCONSISTENT_TOPIC_ID", V::kRefused, C::kTopic, N::kNone},
    {104, "INCONSISTENT_CLUSTER_ID", V::kRefused, C::kDestination, N::kCapped},
    {105, "TRANSACTIONAL_ID_NOT_FOUND", V::kRefused, C::kDestination, N::kCapped},
    {106, "FETCH_SESSION_TOPIC_ID_ERROR", V::kRefused, C::kDestination, N::kCapped},
    {107, "INELIGIBLE_REPLICA", V::kRefused, C::kDestination, N::kCapped},
    {108, "NEW_LEADER_ELECTED", V::kRefused, C::kDestination, N::kCapped},
    {109, "OFFSET_MOVED_TO_TIERED_STORAGE", V::kRefused, C::kDestination, N::kCapped},
    {110, "FENCED_MEMBER_EPOCH", V::kRefused, C::kDestination, N::kCapped},
    {111, "UNRELEASED_INSTANCE_ID", V::kRefused, C::kDestination, N::kCapped},
    {112, "UNSUPPORTED_ASSIGNOR", V::kRefused, C::kDestination, N::kCapped},
    {113, "STALE_MEMBER_EPOCH", V::kRefused, C::kDestination, N::kCapped},
    {114, "MISMATCHED_ENDPOINT_TYPE", V::kRefused, C::kConfig, N::kNone},
    {115, "UNSUPPORTED_ENDPOINT_TYPE", V::kRefused, C::kConfig, N::kNone},
    {116, "UNKNOWN_CONTROLLER_ID", V::kRefused, C::kDestination, N::kCapped},
    {117, "UNKNOWN_SUBSCRIPTION_ID", V::kRefused, C::kDestination, N::kCapped},
    {118, "TELEMETRY_TOO_LARGE", V::kRefused, C::kDestination, N::kCapped},
    {119, "INVALID_REGISTRATION", V::kRefused, C::kDestination, N::kCapped},
    {120, "TRANSACTION_ABORTABLE", V::kRetry, C::kFatalClient, N::kNone},
    {121, "INVALID_RECORD_STATE", V::kRefused, C::kDestination, N::kCapped},
    {122, "SHARE_SESSION_NOT_FOUND", V::kRefused, C::kDestination, N::kCapped},
    {123, "INVALID_SHARE_SESSION_EPOCH", V::kRefused, C::kDestination, N::kCapped},
    {124, "FENCED_STATE_EPOCH", V::kRefused, C::kDestination, N::kCapped},
    {125, "INVALID_VOTER_KEY", V::kRefused, C::kDestination, N::kCapped},
    {126, "DUPLICATE_VOTER", V::kRefused, C::kDestination, N::kCapped},
    {127, "VOTER_NOT_FOUND", V::kRefused, C::kDestination, N::kCapped},
    {128, "INVALID_REGULAR_EXPRESSION", V::kRefused, C::kDestination, N::kCapped},
    {129, "REBOOTSTRAP_REQUIRED", V::kRetry, C::kDestination, N::kNone},
    {130, "STREAMS_INVALID_TOPOLOGY", V::kRefused, C::kDestination, N::kCapped},
    {131, "STREAMS_INVALID_TOPOLOGY_EPOCH", V::kRefused, C::kDestination, N::kCapped},
    {132, "STREAMS_TOPOLOGY_FENCED", V::kRefused, C::kDestination, N::kCapped},
    {133, "SHARE_SESSION_LIMIT_REACHED", V::kRefused, C::kDestination, N::kCapped},
};

constexpr ErrorRule kOther = {0, "", V::kRefused, C::kDestination, N::kCapped};

}  // namespace

std::span<const ErrorRule> ErrorRules() {
  return kRules;
}

const ErrorRule& RuleFor(int code) {
  const auto* found = std::lower_bound(std::begin(kRules), std::end(kRules), code,
                                       [](const ErrorRule& rule, int wanted) { return rule.code < wanted; });
  return found != std::end(kRules) && found->code == code ? *found : kOther;
}

std::string CodeText(int code) {
  if (RuleFor(code).code != code) {
    return "an error code that is not known here: " + std::to_string(code);  // nor may it become one of the library's
  }
  const char* text = rd_kafka_err2str(static_cast<rd_kafka_resp_err_t>(code));
  // The library knew a partition of the topic that the cluster has no more.
  return code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION
             ? std::string(text) + ": the topic was deleted, or has fewer partitions than it had"
             : text;
}

Error MakeError(int code, ErrorClass error_class, std::string detail) {
  const ErrorRule& rule = RuleFor(code);
  if (detail.empty()) {
    detail = CodeText(code);
  }
  return {error_class, rule.code == code ? rule.name : "KAFKA_" + std::to_string(code), std::move(detail)};
}

ErrorClass EventClass(int code) {
  const ErrorRule& rule = RuleFor(code);
  return rule.error_class == ErrorClass::kConfig ? ErrorClass::kConfig : ErrorClass::kDestination;
}

}  // namespace outbox::sink::kafka
