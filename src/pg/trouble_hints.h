// What somebody has to do about trouble that goes on, by its class and code: said in the server's log and by doctor(),
// in the same words.
#pragma once

#include <string_view>

namespace outbox::pg {

// Of a sink process that ends whatever is asked of it: what a person has to do about that is in no option.
inline constexpr const char* kSinkCodes = "SINK_";
inline constexpr const char* kSinkProgramHint =
    "The sink's program ends by itself: see what it has written to the server log, and whether its libraries are "
    "installed (ldd on the program).";

// What was committed is not where it has to be before it is published.
inline constexpr const char* kNoStandby = "NO_STANDBY";
inline constexpr const char* kNoStandbyHint =
    "Start the standbys that synchronous_standby_names asks for, or ask for others: SELECT application_name, "
    "sync_state, "
    "flush_lsn FROM pg_stat_replication. Events that they have are published by themselves.";

// SQLSTATE, where a lane could not write to its tables.
inline constexpr const char* kDiskFull = "53100";
inline constexpr const char* kDiskFullHint =
    "Give the disk room. Deliveries go on meanwhile but cannot be noted: what was delivered counts as pending, and is "
    "sent "
    "again if the worker ends before.";

// SQLSTATEs of a damaged page or index, and of a file or a disk that is not there or fails.
inline bool IsUnreadable(std::string_view code) {
  return code == "XX001" || code == "XX002" || code.starts_with("58");
}
inline constexpr const char* kUnreadableHint =
    "A page or a file of a table cannot be read. Give the server its disk or tablespace back, or the page from a "
    "standby or a backup; docs/when-things-go-wrong.md, \"A page of the log cannot be read\", says what else there is, "
    "and what that loses.";

// What has to be done about trouble of a lane with its tables; nullptr: nothing that is known here.
inline const char* TablesHint(std::string_view code) {
  return code == kDiskFull ? kDiskFullHint : IsUnreadable(code) ? kUnreadableHint : nullptr;
}

// Of class topic, where somebody has to act at the destination.
inline constexpr const char* kBrokerRefuses = "BROKER_REFUSES";

// Of class topic. Part of a sentence: what happens then follows.
inline const char* TopicHint(std::string_view code) {
  if (code == "STALLED") {
    return "See who leads the topic's partitions and which replicas are in sync, as kafka-topics.sh --describe shows "
           "it: "
           "bring that broker back, or as many replicas as min.insync.replicas asks for, or make the address that the "
           "broker gives for itself (advertised.listeners) one that can be reached from here; outbox.test_server() "
           "tries each leader";
  }
  if (code == kBrokerRefuses) {
    return "Have that broker take the credentials and certificates that the others take, or correct those of the "
           "server's options and user mapping";
  }
  return "Create the topic, give its rights back, or move away what stands in its place, whichever the error asks for";
}

}  // namespace outbox::pg
