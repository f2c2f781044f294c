#include "sink/kafka/errors.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <cstdlib>

namespace outbox::sink::kafka {
namespace {

using C = ErrorClass;
using M = Meaning;

using N = Note;

// Sorted by code. All that librdkafka 2.15 and Kafka 4.1 know; codes of consuming and of administration are here too,
// as destination trouble with a cap: none of them is expected from producing.
constexpr ErrorRule kRules[] = {
    {-199, "_BAD_MSG", M::kRefused, C::kDestination, N::kNone},
    {-198, "_BAD_COMPRESSION", M::kRefused, C::kDestination, N::kNone},
    {-197, "_DESTROY", M::kRetry, C::kDestination, N::kNone},
    {-196, "_FAIL", M::kRefused, C::kDestination, N::kNone},
    {-195, "_TRANSPORT", M::kRetry, C::kDestination, N::kNone},
    {-194, "_CRIT_SYS_RESOURCE", M::kRefused, C::kDestination, N::kNone},
    {-193, "_RESOLVE", M::kRefused, C::kDestination, N::kNone},
    {-192, "_MSG_TIMED_OUT", M::kRetry, C::kDestination, N::kNone},  // cannot happen with message.timeout.ms=0
    {-191, "_PARTITION_EOF", M::kRefused, C::kDestination, N::kCapped},
    {-190, "_UNKNOWN_PARTITION", M::kRefused, C::kTopic, N::kNone},
    {-189, "_FS", M::kRefused, C::kDestination, N::kNone},
    {-188, "_UNKNOWN_TOPIC", M::kRefused, C::kTopic, N::kNone},
    {-187, "_ALL_BROKERS_DOWN", M::kRefused, C::kDestination, N::kNone},
    {-186, "_INVALID_ARG", M::kRefused, C::kInternal, N::kNone},
    {-185, "_TIMED_OUT", M::kRetry, C::kDestination, N::kNone},
    {-184, "_QUEUE_FULL", M::kRetry, C::kNone, N::kNone},  // back-pressure; never seen in a report
    {-183, "_ISR_INSUFF", M::kRefused, C::kDestination, N::kNone},
    {-182, "_NODE_UPDATE", M::kRefused, C::kDestination, N::kCapped},
    {-181, "_SSL", M::kRefused, C::kConfig, N::kNone},
    {-180, "_WAIT_COORD", M::kRefused, C::kDestination, N::kCapped},
    {-179, "_UNKNOWN_GROUP", M::kRefused, C::kDestination, N::kCapped},
    {-178, "_IN_PROGRESS", M::kRefused, C::kDestination, N::kCapped},
    {-177, "_PREV_IN_PROGRESS", M::kRefused, C::kDestination, N::kCapped},
    {-176, "_EXISTING_SUBSCRIPTION", M::kRefused, C::kDestination, N::kCapped},
    {-175, "_ASSIGN_PARTITIONS", M::kRefused, C::kDestination, N::kCapped},
    {-174, "_REVOKE_PARTITIONS", M::kRefused, C::kDestination, N::kCapped},
    {-173, "_CONFLICT", M::kRefused, C::kInternal, N::kNone},
    {-172, "_STATE", M::kRefused, C::kInternal, N::kNone},
    {-171, "_UNKNOWN_PROTOCOL", M::kRefused, C::kDestination, N::kCapped},
    {-170, "_NOT_IMPLEMENTED", M::kRefused, C::kInternal, N::kNone},
    {-169, "_AUTHENTICATION", M::kRefused, C::kConfig, N::kNone},
    {-168, "_NO_OFFSET", M::kRefused, C::kDestination, N::kCapped},
    {-167, "_OUTDATED", M::kRefused, C::kDestination, N::kCapped},
    {-166, "_TIMED_OUT_QUEUE", M::kRetry, C::kDestination, N::kNone},
    {-165, "_UNSUPPORTED_FEATURE", M::kRefused, C::kConfig, N::kNone},
    {-164, "_WAIT_CACHE", M::kRefused, C::kDestination, N::kCapped},
    {-163, "_INTR", M::kRetry, C::kDestination, N::kNone},
    {-162, "_KEY_SERIALIZATION", M::kRefused, C::kDestination, N::kCapped},
    {-161, "_VALUE_SERIALIZATION", M::kRefused, C::kDestination, N::kCapped},
    {-160, "_KEY_DESERIALIZATION", M::kRefused, C::kDestination, N::kCapped},
    {-159, "_VALUE_DESERIALIZATION", M::kRefused, C::kDestination, N::kCapped},
    {-158, "_PARTIAL", M::kRefused, C::kDestination, N::kCapped},
    {-157, "_READ_ONLY", M::kRefused, C::kDestination, N::kCapped},
    {-156, "_NOENT", M::kRefused, C::kDestination, N::kCapped},
    {-155, "_UNDERFLOW", M::kRefused, C::kDestination, N::kCapped},
    {-154, "_INVALID_TYPE", M::kRefused, C::kDestination, N::kCapped},
    {-153, "_RETRY", M::kRetry, C::kDestination, N::kNone},
    {-152, "_PURGE_QUEUE", M::kRetry, C::kNone, N::kNone},
    {-151, "_PURGE_INFLIGHT", M::kRetry, C::kNone, N::kNone},
    {-150, "_FATAL", M::kRetry, C::kFatalClient, N::kNone},
    {-149, "_INCONSISTENT", M::kRetry, C::kFatalClient, N::kNone},
    {-148, "_GAPLESS_GUARANTEE", M::kRetry, C::kFatalClient, N::kNone},
    {-147, "_MAX_POLL_EXCEEDED", M::kRefused, C::kDestination, N::kCapped},
    {-146, "_UNKNOWN_BROKER", M::kRefused, C::kDestination, N::kCapped},
    {-145, "_NOT_CONFIGURED", M::kRefused, C::kDestination, N::kCapped},
    {-144, "_FENCED", M::kRetry, C::kFatalClient, N::kNone},
    {-143, "_APPLICATION", M::kRefused, C::kDestination, N::kCapped},
    {-142, "_ASSIGNMENT_LOST", M::kRefused, C::kDestination, N::kCapped},
    {-141, "_NOOP", M::kRefused, C::kDestination, N::kCapped},
    {-140, "_AUTO_OFFSET_RESET", M::kRefused, C::kDestination, N::kCapped},
    {-139, "_LOG_TRUNCATION", M::kRefused, C::kDestination, N::kCapped},
    {-138, "_INVALID_DIFFERENT_RECORD", M::kRetry, C::kNone, N::kNone},  // a neighbour was invalid, not this one
    {-137, "_DESTROY_BROKER", M::kRetry, C::kDestination, N::kNone},
    {-1, "UNKNOWN", M::kRefused, C::kDestination, N::kCapped},  // what the broker makes of its own bugs
    {1, "OFFSET_OUT_OF_RANGE", M::kRefused, C::kDestination, N::kCapped},
    {2, "INVALID_MSG", M::kBatch, C::kDestination,
     N::kCapped},  // bad checksum, usually the network; a compacted topic of an old broker
    {3, "UNKNOWN_TOPIC_OR_PART", M::kRefused, C::kTopic, N::kNone},
    {4, "INVALID_MSG_SIZE", M::kRefused, C::kDestination, N::kCapped},  // a fetch's; nothing about a record
    {5, "LEADER_NOT_AVAILABLE", M::kRetry, C::kDestination, N::kNone},
    {6, "NOT_LEADER_FOR_PARTITION", M::kRetry, C::kDestination, N::kNone},
    {7, "REQUEST_TIMED_OUT", M::kRetry, C::kDestination, N::kNone},
    {8, "BROKER_NOT_AVAILABLE", M::kRefused, C::kDestination, N::kNone},
    {9, "REPLICA_NOT_AVAILABLE", M::kRefused, C::kDestination,
     N::kCapped},  // of one partition, so perhaps of one topic only: capped
    {10, "MSG_SIZE_TOO_LARGE", M::kBatch, C::kMessage, N::kSize},
    {11, "STALE_CTRL_EPOCH", M::kRefused, C::kDestination, N::kCapped},
    {12, "OFFSET_METADATA_TOO_LARGE", M::kRefused, C::kDestination, N::kCapped},
    {13, "NETWORK_EXCEPTION", M::kRetry, C::kDestination, N::kNone},
    {14, "COORDINATOR_LOAD_IN_PROGRESS", M::kRefused, C::kDestination, N::kNone},
    {15, "COORDINATOR_NOT_AVAILABLE", M::kRefused, C::kDestination, N::kNone},
    {16, "NOT_COORDINATOR", M::kRefused, C::kDestination, N::kNone},
    {17, "TOPIC_EXCEPTION", M::kRefused, C::kTopic, N::kNone},
    {18, "RECORD_LIST_TOO_LARGE", M::kBatch, C::kMessage, N::kSize},
    {19, "NOT_ENOUGH_REPLICAS", M::kRefused, C::kDestination, N::kCapped},
    {20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", M::kRefused, C::kDestination, N::kCapped},
    {21, "INVALID_REQUIRED_ACKS", M::kRefused, C::kConfig, N::kNone},
    {22, "ILLEGAL_GENERATION", M::kRefused, C::kDestination, N::kCapped},
    {23, "INCONSISTENT_GROUP_PROTOCOL", M::kRefused, C::kDestination, N::kCapped},
    {24, "INVALID_GROUP_ID", M::kRefused, C::kDestination, N::kCapped},
    {25, "UNKNOWN_MEMBER_ID", M::kRefused, C::kDestination, N::kCapped},
    {26, "INVALID_SESSION_TIMEOUT", M::kRefused, C::kDestination, N::kCapped},
    {27, "REBALANCE_IN_PROGRESS", M::kRefused, C::kDestination, N::kCapped},
    {28, "INVALID_COMMIT_OFFSET_SIZE", M::kRefused, C::kDestination, N::kCapped},
    {29, "TOPIC_AUTHORIZATION_FAILED", M::kRefused, C::kTopic, N::kNone},
    {30, "GROUP_AUTHORIZATION_FAILED", M::kRefused, C::kConfig, N::kNone},
    {31, "CLUSTER_AUTHORIZATION_FAILED", M::kRefused, C::kConfig, N::kNone},
    {32, "INVALID_TIMESTAMP", M::kBatch, C::kSolo, N::kNone},  // or of another class: TopicLimits::ClassOfTimestamp()
    {33, "UNSUPPORTED_SASL_MECHANISM", M::kRefused, C::kConfig, N::kNone},
    {34, "ILLEGAL_SASL_STATE", M::kRefused, C::kConfig, N::kNone},
    {35, "UNSUPPORTED_VERSION", M::kRefused, C::kConfig, N::kNone},
    {36, "TOPIC_ALREADY_EXISTS", M::kRefused, C::kDestination, N::kCapped},
    {37, "INVALID_PARTITIONS", M::kRefused, C::kTopic, N::kNone},  // 37 to 40: the broker was to make the topic
    {38, "INVALID_REPLICATION_FACTOR", M::kRefused, C::kTopic, N::kNone},
    {39, "INVALID_REPLICA_ASSIGNMENT", M::kRefused, C::kTopic, N::kNone},
    {40, "INVALID_CONFIG", M::kRefused, C::kTopic, N::kNone},
    {41, "NOT_CONTROLLER", M::kRefused, C::kDestination, N::kCapped},
    {42, "INVALID_REQUEST", M::kRefused, C::kDestination, N::kCapped},
    {43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", M::kRefused, C::kConfig, N::kNone},
    {44, "POLICY_VIOLATION", M::kBatch, C::kTopic, N::kNone},
    {45, "OUT_OF_ORDER_SEQUENCE_NUMBER", M::kRetry, C::kFatalClient, N::kNone},
    // The library makes a success of it, without an offset; the sink doubts such ones under this code.
    {46, "DUPLICATE_SEQUENCE_NUMBER", M::kRetry, C::kFatalClient, N::kNone},
    {47, "INVALID_PRODUCER_EPOCH", M::kRetry, C::kFatalClient, N::kNone},
    {48, "INVALID_TXN_STATE", M::kRetry, C::kFatalClient, N::kNone},
    {49, "INVALID_PRODUCER_ID_MAPPING", M::kRetry, C::kFatalClient, N::kNone},
    {50, "INVALID_TRANSACTION_TIMEOUT", M::kRefused, C::kConfig, N::kNone},
    {51, "CONCURRENT_TRANSACTIONS", M::kRefused, C::kDestination, N::kNone},
    {52, "TRANSACTION_COORDINATOR_FENCED", M::kRetry, C::kFatalClient, N::kNone},
    {53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", M::kRefused, C::kConfig, N::kNone},
    {54, "SECURITY_DISABLED", M::kRefused, C::kConfig, N::kNone},
    {55, "OPERATION_NOT_ATTEMPTED", M::kRefused, C::kDestination, N::kCapped},
    {56, "KAFKA_STORAGE_ERROR", M::kRefused, C::kDestination, N::kCapped},
    {57, "LOG_DIR_NOT_FOUND", M::kRefused, C::kDestination, N::kCapped},
    {58, "SASL_AUTHENTICATION_FAILED", M::kRefused, C::kConfig, N::kNone},
    {59, "UNKNOWN_PRODUCER_ID", M::kRetry, C::kFatalClient, N::kNone},
    {60, "REASSIGNMENT_IN_PROGRESS", M::kRefused, C::kDestination, N::kCapped},
    {61, "DELEGATION_TOKEN_AUTH_DISABLED", M::kRefused, C::kConfig, N::kNone},
    {62, "DELEGATION_TOKEN_NOT_FOUND", M::kRefused, C::kConfig, N::kNone},
    {63, "DELEGATION_TOKEN_OWNER_MISMATCH", M::kRefused, C::kConfig, N::kNone},
    {64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", M::kRefused, C::kConfig, N::kNone},
    {65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", M::kRefused, C::kConfig, N::kNone},
    {66, "DELEGATION_TOKEN_EXPIRED", M::kRefused, C::kConfig, N::kNone},
    {67, "INVALID_PRINCIPAL_TYPE", M::kRefused, C::kDestination, N::kCapped},
    {68, "NON_EMPTY_GROUP", M::kRefused, C::kDestination, N::kCapped},
    {69, "GROUP_ID_NOT_FOUND", M::kRefused, C::kDestination, N::kCapped},
    {70, "FETCH_SESSION_ID_NOT_FOUND", M::kRefused, C::kDestination, N::kCapped},
    {71, "INVALID_FETCH_SESSION_EPOCH", M::kRefused, C::kDestination, N::kCapped},
    {72, "LISTENER_NOT_FOUND", M::kRefused, C::kDestination, N::kCapped},
    {73, "TOPIC_DELETION_DISABLED", M::kRefused, C::kDestination, N::kCapped},
    {74, "FENCED_LEADER_EPOCH", M::kRetry, C::kDestination, N::kNone},
    {75, "UNKNOWN_LEADER_EPOCH", M::kRetry, C::kDestination, N::kNone},
    {76, "UNSUPPORTED_COMPRESSION_TYPE", M::kRefused, C::kConfig, N::kNone},
    {77, "STALE_BROKER_EPOCH", M::kRefused, C::kDestination, N::kCapped},
    {78, "OFFSET_NOT_AVAILABLE", M::kRefused, C::kDestination, N::kCapped},
    {79, "MEMBER_ID_REQUIRED", M::kRefused, C::kDestination, N::kCapped},
    {80, "PREFERRED_LEADER_NOT_AVAILABLE", M::kRefused, C::kDestination, N::kCapped},
    {81, "GROUP_MAX_SIZE_REACHED", M::kRefused, C::kDestination, N::kCapped},
    {82, "FENCED_INSTANCE_ID", M::kRefused, C::kDestination, N::kCapped},
    {83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", M::kRefused, C::kDestination, N::kCapped},
    {84, "ELECTION_NOT_NEEDED", M::kRefused, C::kDestination, N::kCapped},
    {85, "NO_REASSIGNMENT_IN_PROGRESS", M::kRefused, C::kDestination, N::kCapped},
    {86, "GROUP_SUBSCRIBED_TO_TOPIC", M::kRefused, C::kDestination, N::kCapped},
    // Refused by broker-side checks: a schema that is not registered yet, a topic that requires keys at the moment.
    {87, "INVALID_RECORD", M::kBatch, C::kSolo, N::kNone},
    {88, "UNSTABLE_OFFSET_COMMIT", M::kRefused, C::kDestination, N::kCapped},
    {89, "THROTTLING_QUOTA_EXCEEDED", M::kRefused, C::kDestination, N::kNone},
    {90, "PRODUCER_FENCED", M::kRetry, C::kFatalClient, N::kNone},
    {91, "RESOURCE_NOT_FOUND", M::kRefused, C::kDestination, N::kCapped},
    {92, "DUPLICATE_RESOURCE", M::kRefused, C::kDestination, N::kCapped},
    {93, "UNACCEPTABLE_CREDENTIAL", M::kRefused, C::kConfig, N::kNone},
    {94, "INCONSISTENT_VOTER_SET", M::kRefused, C::kDestination, N::kCapped},
    {95, "INVALID_UPDATE_VERSION", M::kRefused, C::kDestination, N::kCapped},
    {96, "FEATURE_UPDATE_FAILED", M::kRefused, C::kDestination, N::kCapped},
    {97, "PRINCIPAL_DESERIALIZATION_FAILURE", M::kRefused, C::kConfig, N::kNone},
    {98, "SNAPSHOT_NOT_FOUND", M::kRefused, C::kDestination, N::kCapped},
    {99, "POSITION_OUT_OF_RANGE", M::kRefused, C::kDestination, N::kCapped},
    {100, "UNKNOWN_TOPIC_ID", M::kRefused, C::kTopic, N::kNone},
    {101, "DUPLICATE_BROKER_REGISTRATION", M::kRefused, C::kDestination, N::kCapped},
    {102, "BROKER_ID_NOT_REGISTERED", M::kRefused, C::kDestination, N::kCapped},
    {103, "INCONSISTENT_TOPIC_ID", M::kRefused, C::kTopic, N::kNone},
    {104, "INCONSISTENT_CLUSTER_ID", M::kRefused, C::kDestination, N::kCapped},
    {105, "TRANSACTIONAL_ID_NOT_FOUND", M::kRefused, C::kDestination, N::kCapped},
    {106, "FETCH_SESSION_TOPIC_ID_ERROR", M::kRefused, C::kDestination, N::kCapped},
    {107, "INELIGIBLE_REPLICA", M::kRefused, C::kDestination, N::kCapped},
    {108, "NEW_LEADER_ELECTED", M::kRefused, C::kDestination, N::kCapped},
    {109, "OFFSET_MOVED_TO_TIERED_STORAGE", M::kRefused, C::kDestination, N::kCapped},
    {110, "FENCED_MEMBER_EPOCH", M::kRefused, C::kDestination, N::kCapped},
    {111, "UNRELEASED_INSTANCE_ID", M::kRefused, C::kDestination, N::kCapped},
    {112, "UNSUPPORTED_ASSIGNOR", M::kRefused, C::kDestination, N::kCapped},
    {113, "STALE_MEMBER_EPOCH", M::kRefused, C::kDestination, N::kCapped},
    {114, "MISMATCHED_ENDPOINT_TYPE", M::kRefused, C::kConfig, N::kNone},
    {115, "UNSUPPORTED_ENDPOINT_TYPE", M::kRefused, C::kConfig, N::kNone},
    {116, "UNKNOWN_CONTROLLER_ID", M::kRefused, C::kDestination, N::kCapped},
    {117, "UNKNOWN_SUBSCRIPTION_ID", M::kRefused, C::kDestination, N::kCapped},
    {118, "TELEMETRY_TOO_LARGE", M::kRefused, C::kDestination, N::kCapped},
    {119, "INVALID_REGISTRATION", M::kRefused, C::kDestination, N::kCapped},
    {120, "TRANSACTION_ABORTABLE", M::kRetry, C::kFatalClient, N::kNone},
    {121, "INVALID_RECORD_STATE", M::kRefused, C::kDestination, N::kCapped},
    {122, "SHARE_SESSION_NOT_FOUND", M::kRefused, C::kDestination, N::kCapped},
    {123, "INVALID_SHARE_SESSION_EPOCH", M::kRefused, C::kDestination, N::kCapped},
    {124, "FENCED_STATE_EPOCH", M::kRefused, C::kDestination, N::kCapped},
    {125, "INVALID_VOTER_KEY", M::kRefused, C::kDestination, N::kCapped},
    {126, "DUPLICATE_VOTER", M::kRefused, C::kDestination, N::kCapped},
    {127, "VOTER_NOT_FOUND", M::kRefused, C::kDestination, N::kCapped},
    {128, "INVALID_REGULAR_EXPRESSION", M::kRefused, C::kDestination, N::kCapped},
    {129, "REBOOTSTRAP_REQUIRED", M::kRetry, C::kDestination, N::kNone},
    {130, "STREAMS_INVALID_TOPOLOGY", M::kRefused, C::kDestination, N::kCapped},
    {131, "STREAMS_INVALID_TOPOLOGY_EPOCH", M::kRefused, C::kDestination, N::kCapped},
    {132, "STREAMS_TOPOLOGY_FENCED", M::kRefused, C::kDestination, N::kCapped},
    {133, "SHARE_SESSION_LIMIT_REACHED", M::kRefused, C::kDestination, N::kCapped},
};

constexpr ErrorRule kOther = {0, "", M::kRefused, C::kDestination, N::kCapped};

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

Error FatalError(rd_kafka_s* handle) {
  char why[512] = "";
  const int code = rd_kafka_fatal_error(handle, why, sizeof why);
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
    return {};
  }
  const bool config = RuleFor(code).error_class == ErrorClass::kConfig;
  return MakeError(code, config ? ErrorClass::kConfig : ErrorClass::kFatalClient, why);
}

std::string NoProducerId(rd_kafka_op_s* log) {
  constexpr int kWarning = 4;  // as of syslog; what the option "debug" asks for is above
  constexpr std::string_view kFrom = " from broker ";
  constexpr std::string_view kEnd = ": retrying";
  const char* facility = nullptr;
  const char* text = nullptr;
  int level = 0;
  if (rd_kafka_event_log(log, &facility, &text, &level) != 0 || level > kWarning ||
      std::string_view(facility) != "GETPID") {
    return "";
  }
  std::string_view said = text;
  if (const size_t at = said.find(kFrom); at != std::string_view::npos) {
    said.remove_prefix(at + kFrom.size());
  }
  if (said.ends_with(kEnd)) {
    said.remove_suffix(kEnd.size());
  }
  return std::string(said);
}

bool RefusesCertificate(std::string_view text) {
  constexpr std::string_view kAlert = "SSL alert number ";  // OpenSSL's words
  // Missing (41, 116), bad, unsupported, revoked, expired, unknown, of an unknown authority, not let in.
  constexpr int kAlerts[] = {41, 42, 43, 44, 45, 46, 48, 49, 116};
  const size_t at = text.find(kAlert);
  if (at == std::string_view::npos) {
    return false;
  }
  const int alert = std::atoi(std::string(text.substr(at + kAlert.size(), 3)).c_str());
  return std::find(std::begin(kAlerts), std::end(kAlerts), alert) != std::end(kAlerts);
}

int EventCode(int code, std::string_view text) {
  return code == RD_KAFKA_RESP_ERR__TRANSPORT && RefusesCertificate(text) ? RD_KAFKA_RESP_ERR__SSL : code;
}

bool MissingTopic(int code) {
  return code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
}

ErrorClass EventClass(int code) {
  const ErrorRule& rule = RuleFor(code);
  return rule.error_class == ErrorClass::kConfig ? ErrorClass::kConfig : ErrorClass::kDestination;
}

}  // namespace outbox::sink::kafka
