// What somebody has to do about trouble that goes on, by its class and code: said in the server's log and by doctor(),
// in the same words.
#pragma once

#include <string_view>

namespace outbox::pg {

// Of a sink process that ends whatever is asked of it: what a person has to do about that is in no option.
inline constexpr const char* kSinkCodes = "SINK_";
inline constexpr const char* kSinkProgramHint =
    "The sink's program ends by itself, or cannot be started: see what it has written to the server log, and whether "
    "its "
    "libraries are installed (ldd on the program). Where it was replaced since the server was started, restart that.";

// SIGSYS, by ChildProcess::ExitText(): the program is all right, and ldd finds nothing.
inline constexpr const char* kCallFilterHint =
    "The filter of system calls that the server runs under (a container's seccomp profile, SystemCallFilter= of its "
    "service) ends the sink's program for one that confines it: let it call capset, prctl, seccomp and landlock_*, or "
    "have the filter answer with an error (SystemCallErrorNumber=EPERM), which the program takes, and restart the "
    "server.";

inline const char* SinkHint(std::string_view message) {
  return message.find("seccomp") != message.npos ? kCallFilterHint : kSinkProgramHint;
}

// A certificate that one of the two sides does not accept.
inline bool IsOfTls(std::string_view code) {
  return code == "_SSL" || code == "TLS";
}
inline constexpr const char* kTlsHint =
    "Where the error speaks of the destination's certificate (it has expired, or is of another name), renew it there; "
    "where of ours, or of an authority, correct an option of the server or of its user mapping. outbox.test_server() "
    "says more.";

// A warning. A broker goes on with what it has begun: no quota that is raised shortens that.
inline constexpr const char* kThrottled = "THROTTLED";
inline constexpr const char* kThrottledHint =
    "Raise the quota in Kafka, then change an option of the server (ALTER SERVER): the broker keeps a connection "
    "waiting for as long as it said before, which may be minutes, and a new one only as the new quota asks.";

// A warning: a Kafka partition acknowledged at an offset that it had acknowledged before.
inline constexpr const char* kOffsetsWentBack = "OFFSETS_WENT_BACK";
inline constexpr const char* kOffsetsWentBackHint =
    "Where the topic was not made anew, what it had acknowledged and lost is not sent again by itself: CALL "
    "outbox.replay(since => ..., route => ...) or outbox.seek(), from a time before the brokers' trouble. Other topics "
    "and partitions that the same brokers had may lack something, too. It goes after an hour.";

// Of a Kafka cluster that took the place of another, and of addresses of two.
inline constexpr const char* kAnotherCluster = "ANOTHER_CLUSTER";
inline constexpr const char* kTwoClusters = "TWO_CLUSTERS";
inline constexpr const char* kTwoClustersHint =
    "Keep the addresses of one cluster only: ALTER SERVER ... OPTIONS (SET \"bootstrap.servers\" '...'). What this one "
    "lacks is in the other: outbox.seek() sends it again.";

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

// SQLSTATE, where the server has no memory left.
inline constexpr const char* kOutOfMemory = "53200";
inline constexpr const char* kOutOfMemoryHint =
    "Give the machine more memory, or lower work_mem, outbox.sort_mem or outbox.max_inflight. It goes on by itself as "
    "soon as there is some.";

// The same SQLSTATE, where the server's table of locks is full: its hint, in whatever language, names the setting.
inline bool NamesLockSetting(std::string_view text) {
  return text.find("max_locks_per_transaction") != text.npos || text.find("max_pred_locks_per_") != text.npos;
}
inline constexpr const char* kOutOfLocksHint =
    "Raise max_locks_per_transaction and restart the server: it has room for that many locks times (max_connections + "
    "max_prepared_transactions), and each day that the outbox keeps takes some; or lower outbox.retention, see "
    "docs/settings.md. It goes on by itself as soon as others have let go of theirs.";

// Of a process of the server that may open no more files.
inline constexpr const char* kFewDescriptorsHint =
    "Where too many files are open: let processes of the server open more, with ulimit -n for whoever starts it, or "
    "LimitNOFILE= of its service (and max_files_per_process, where that is lower), and restart it. A relay worker "
    "needs one for each destination beside those "
    "of "
    "its data files.";

// SQLSTATE, where the server hands out no transaction ids any more: its message is in whatever language.
inline constexpr const char* kLimitExceeded = "54000";
inline constexpr const char* kNoXidsHint =
    "Where the server takes no commands to avoid wraparound: end old prepared transactions (pg_prepared_xacts) and "
    "sessions (pg_stat_activity), drop unused replication slots, and VACUUM the databases with the greatest "
    "age(datfrozenxid). Deliveries go on meanwhile but cannot be noted: what was delivered is sent again if the worker "
    "ends before. docs/errors.md, 54000, says what else it may be.";

// SQLSTATEs of a damaged page or index, and of a file or a disk that is not there or fails.
inline bool IsUnreadable(std::string_view code) {
  return code == "XX001" || code == "XX002" || code.starts_with("58");
}
inline constexpr const char* kUnreadableHint =
    "A page or a file of a table or of an index cannot be read. SELECT pg_filenode_relation(0, N) has the name for "
    "base/5/N: REINDEX INDEX makes an index again and loses nothing. For a table give the server its disk or "
    "tablespace "
    "back, or the page from a standby or a backup; docs/when-things-go-wrong.md, \"A page of the log cannot be read\", "
    "says what else there is, and what that loses.";

// Transaction ids that have gone back: log/progress/used_xids.h.
inline constexpr const char* kUsedXidsHint =
    "Stop the server, have pg_resetwal -x set an id above all that were ever used, and -e the epoch that the error's "
    "detail in the server's log names, where that has gone back, and start it: lanes go on then. "
    "After that send what was emitted meanwhile, of each route: CALL outbox.seek(route, since, dry_run => false), with "
    "the time at which the ids went back. docs/when-things-go-wrong.md, \"Transaction ids have gone back\", says more; "
    "where the lanes came by a dump, read that first: the ids are to be left alone then.";

inline constexpr const char* kPositionAhead = "POSITION_AHEAD";

// What has to be done about trouble of a lane that is the server's own; nullptr: nothing that is known here.
inline const char* ServersHint(std::string_view code, std::string_view message) {
  return code == kDiskFull        ? kDiskFullHint
         : code == kOutOfMemory   ? (NamesLockSetting(message) ? kOutOfLocksHint : kOutOfMemoryHint)
         : code == kLimitExceeded ? kNoXidsHint
         : IsUnreadable(code)     ? kUnreadableHint
         : code == kPositionAhead ? kUsedXidsHint
                                  : nullptr;
}

// Of class topic, where somebody has to act at the destination.
inline constexpr const char* kBrokerRefuses = "BROKER_REFUSES";

// Of class topic. Part of a sentence: what happens then follows.
#define OUTBOX_UNCLEAN_ELECTION                                                                                  \
  "where the log directory of a broker came back empty, only an unclean election gives its partitions a leader " \
  "(kafka-leader-election.sh --election-type unclean), and what nobody else had of them is lost"
inline constexpr const char* kMissingHint =
    "Create the topic, or give the route another one where Kafka makes none of that name: beside one that differs in "
    "dots "
    "and underscores only";
inline constexpr const char* kForbiddenHint =
    "Give its user there the right to write to it, as kafka-acls.sh --operation Write or ACL SETUSER does it";
inline constexpr const char* kInItsPlaceHint =
    "Move away what stands in its place, as RENAME does it, or give the route another topic";
inline constexpr const char* kOtherSlotHint =
    "A node of a Redis cluster takes the topics whose slots it has, and no others: ALTER SERVER ... OPTIONS (SET host "
    "'...') to a single Redis server, or to a proxy that knows the cluster (behind which lost writes may not be "
    "noticed), or give that node the topic's slot";
inline constexpr const char* kReplicasHint =
    "Bring back the brokers of the topic's other replicas, which kafka-topics.sh --describe names, or lower its "
    "min.insync.replicas";
inline constexpr const char* kNotMadeHint =
    "The brokers do not get the topic made as they are set up: create it by hand, or correct their num.partitions and "
    "default.replication.factor";

struct TopicCure {
  std::string_view code;
  const char* hint;
};
inline constexpr TopicCure kTopicCures[] = {
    {"UNKNOWN_TOPIC_OR_PART", kMissingHint},
    {"_UNKNOWN_TOPIC", kMissingHint},
    {"_UNKNOWN_PARTITION", kMissingHint},
    {"UNKNOWN_TOPIC_ID", kMissingHint},
    {"INCONSISTENT_TOPIC_ID", kMissingHint},
    {"TOPIC_AUTHORIZATION_FAILED", kForbiddenHint},
    {"NOPERM", kForbiddenHint},
    {"WRONGTYPE", kInItsPlaceHint},
    {"STREAM_EXHAUSTED", kInItsPlaceHint},
    {"STREAM_ID", kInItsPlaceHint},
    {"MOVED", kOtherSlotHint},
    {"ASK", kOtherSlotHint},
    {"STALLED",
     "See who leads the topic's partitions and which replicas are in sync, as kafka-topics.sh --describe shows it: "
     "bring that broker back, or as many replicas as min.insync.replicas asks for, or make the address that the broker "
     "gives for itself (advertised.listeners) one that can be reached from here; outbox.test_server() tries each "
     "leader; where no producer id was given, bring back the controllers; " OUTBOX_UNCLEAN_ELECTION},
    {"PARTITION_STALLED",
     "Bring back the broker that led these partitions, as kafka-topics.sh --describe shows it (a log directory of it "
     "may be offline, full or broken: see its log), or have another one of their replicas lead "
     "them; " OUTBOX_UNCLEAN_ELECTION},
    {kBrokerRefuses,
     "Have that broker take the credentials and certificates that the others take, or correct those of the server's "
     "options and user mapping"},
    {"NOT_ENOUGH_REPLICAS", kReplicasHint},
    {"NOT_ENOUGH_REPLICAS_AFTER_APPEND", kReplicasHint},
    {"REPLICA_NOT_AVAILABLE", kReplicasHint},
    {"KAFKA_STORAGE_ERROR",
     "Give the broker that leads the topic's partitions a disk that works, or have another one lead them; that "
     "broker's log says what failed"},
    {"INVALID_PARTITIONS", kNotMadeHint},
    {"INVALID_REPLICATION_FACTOR", kNotMadeHint},
    {"INVALID_REPLICA_ASSIGNMENT", kNotMadeHint},
    {"INVALID_CONFIG", kNotMadeHint},
    {"TOPIC_EXCEPTION",
     "Kafka takes no such name, which may also be one that differs from an existing topic's in dots and underscores "
     "only: give the route another topic"},
    {"POLICY_VIOLATION",
     "A policy of the brokers stands against it, and their log says which: change that, or the topic, so that it fits"},
    {"INVALID_TIMESTAMP",
     "Set the clocks of the database server and of the brokers right, or the topic's message.timestamp.before.max.ms "
     "and message.timestamp.after.max.ms (before Kafka 3.6 message.timestamp.difference.max.ms) higher"},
};
#undef OUTBOX_UNCLEAN_ELECTION

// Errors of many a code become a topic's when they do not end: of those that are not known here no cure is named, since
// a wrong one costs more than none.
inline const char* TopicHint(std::string_view code) {
  for (const TopicCure& cure : kTopicCures) {
    if (cure.code == code) {
      return cure.hint;
    }
  }
  return "Mend at the destination what the error speaks of; its own log may say more, and so may outbox.test_server() "
         "with the topic's name";
}

}  // namespace outbox::pg
