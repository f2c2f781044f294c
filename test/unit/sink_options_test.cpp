// matrix: G1
// The allow-lists: every librdkafka property is classified, every row can be used, every refusal says what to do.
#include "sink/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include "sink/kind.h"

namespace outbox::sink {
namespace {

const SinkKind& kKafka = *FindKind("outbox_kafka");
const SinkKind& kRedis = *FindKind("outbox_redis");
const SinkKind& kLog = *FindKind("outbox_log");
constexpr OptionPlace kServer = OptionPlace::kServer;
constexpr OptionPlace kMapping = OptionPlace::kMapping;
const char kPem[] = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

std::vector<std::string> Words(const char* text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

OptionGroup Group(const SinkKind& kind, const std::string& name) {
  const OptionRule* rule = FindOption(kind, CanonicalOption(kind, name));
  EXPECT_NE(rule, nullptr) << name;
  return rule == nullptr ? OptionGroup::kNever : rule->group;
}

// Every property of librdkafka 2.15.0 (CONFIGURATION.md, and the hidden ones of rdkafka_conf.c), by what we made of it.
const char kNever[] =
    "background_event_cb builtin.features client.software.name client.software.version closesocket_cb connect_cb "
    "consume_cb default_topic_conf dr_cb dr_msg_cb enable.random.seed enable.sparse.connections enable_sasl_queue "
    "enabled_events error_cb interceptors internal.termination.signal log.queue log.thread.name log_cb "
    "metadata.request.timeout.ms msg_order_cmp oauthbearer_token_refresh_cb offset.store.method offset.store.path "
    "offset.store.sync.interval.ms offset_commit_cb opaque open_cb partitioner_cb plugin.library.paths rebalance_cb "
    "resolve_cb sasl.kerberos.kinit.cmd socket_cb ssl.certificate.verify_cb ssl.engine.id ssl.engine.location "
    "ssl.providers ssl_ca ssl_certificate ssl_engine_callback_data ssl_key stats_cb test.mock.broker.rtt "
    "test.mock.num.brokers throttle_cb ut_handle_ProduceResponse";
const char kSuperuser[] =
    "debug enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification https.ca.location https.ca.pem "
    "log_level receive.message.max.bytes "
    "sasl.kerberos.principal sasl.kerberos.service.name sasl.oauthbearer.assertion.algorithm "
    "sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds "
    "sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include "
    "sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub "
    "sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.jwt.template.file "
    "sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.config sasl.oauthbearer.extensions "
    "sasl.oauthbearer.grant.type sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method "
    "sasl.oauthbearer.scope sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url "
    "socket.receive.buffer.bytes socket.send.buffer.bytes ssl.ca.certificate.stores ssl.ca.location "
    "ssl.certificate.location ssl.cipher.suites ssl.crl.location ssl.curves.list "
    "ssl.endpoint.identification.algorithm ssl.key.location ssl.keystore.location ssl.sigalgs.list "
    "statistics.interval.ms";
const char kOwner[] =
    "api.version.request.timeout.ms batch.num.messages batch.size bootstrap.servers broker.address.family "
    "broker.address.ttl client.dns.lookup client.id client.rack compression.codec compression.level compression.type "
    "connections.max.idle.ms linger.ms message.max.bytes metadata.broker.list metadata.max.age.ms "
    "metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy partitioner queue.buffering.max.ms "
    "reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms retry.backoff.ms "
    "sasl.mechanism sasl.mechanisms security.protocol socket.connection.setup.timeout.ms socket.keepalive.enable "
    "socket.max.fails socket.nagle.disable socket.timeout.ms ssl.ca.pem sticky.partitioning.linger.ms "
    "topic.metadata.propagation.max.ms topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms";
const char kSecret[] =
    "sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem "
    "sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret "
    "sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.password sasl.username ssl.certificate.pem "
    "ssl.key.password ssl.key.pem ssl.keystore.password";
const char kFixed[] =
    "acks allow.auto.create.topics api.version.fallback.ms api.version.request broker.version.fallback "
    "delivery.report.only.error delivery.timeout.ms enable.gapless.guarantee enable.idempotence enable.metrics.push "
    "log.connection.close max.in.flight max.in.flight.requests.per.connection message.copy.max.bytes "
    "message.send.max.retries message.timeout.ms produce.offset.report queue.buffering.backpressure.threshold "
    "queue.buffering.max.kbytes queue.buffering.max.messages queuing.strategy reconnect.backoff.jitter.ms "
    "request.required.acks retries sasl.kerberos.keytab sasl.kerberos.min.time.before.relogin "
    "socket.blocking.max.ms topic.blacklist topic.metadata.refresh.fast.cnt "
    "topic.metadata.refresh.sparse transaction.timeout.ms transactional.id";
const char kConsumer[] =
    "auto.commit.enable auto.commit.interval.ms auto.offset.reset check.crcs consume.callback.max.messages "
    "coordinator.query.interval.ms enable.auto.commit enable.auto.offset.store enable.partition.eof "
    "fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms "
    "fetch.wait.max.ms group.id group.instance.id group.protocol group.protocol.type group.remote.assignor "
    "heartbeat.interval.ms isolation.level max.partition.fetch.bytes max.poll.interval.ms max.poll.records "
    "partition.assignment.strategy queued.max.messages.kbytes queued.min.messages session.timeout.ms "
    "share.acknowledgement.mode";

TEST(KafkaOptions, EveryPropertyOfTheLibraryIsClassified) {
  const std::pair<OptionGroup, const char*> kGroups[] = {
      {OptionGroup::kNever, kNever},   {OptionGroup::kSuperuser, kSuperuser}, {OptionGroup::kOwner, kOwner},
      {OptionGroup::kSecret, kSecret}, {OptionGroup::kFixed, kFixed},         {OptionGroup::kConsumer, kConsumer}};
  std::set<std::string> listed;
  for (const auto& [group, names] : kGroups) {
    for (const std::string& name : Words(names)) {
      EXPECT_EQ(static_cast<int>(Group(kKafka, name)), static_cast<int>(group)) << name;
      EXPECT_TRUE(listed.insert(name).second) << name << " is listed twice";
    }
  }
  EXPECT_EQ(listed.size(), 201u);
  for (const OptionRule& rule : OptionRules(kKafka)) {
    EXPECT_TRUE(listed.count(rule.name)) << rule.name << " is no property of the library";
  }
}

TEST(OptionTables, AreWellFormed) {
  for (const SinkKind* each : Kinds()) {
    const SinkKind& kind = *each;
    std::set<std::string> names;
    for (const OptionRule& rule : OptionRules(kind)) {
      EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
      if (rule.canonical != nullptr) {
        const OptionRule* canonical = FindOption(kind, rule.canonical);
        ASSERT_NE(canonical, nullptr) << rule.name;
        EXPECT_EQ(canonical->canonical, nullptr) << "an alias of an alias: " << rule.name;
        continue;
      }
      bool sentence = rule.group == OptionGroup::kFixed || rule.group == OptionGroup::kNever;
      EXPECT_EQ(sentence, std::string(rule.help).ends_with('.')) << rule.name;
      EXPECT_EQ(rule.choices != nullptr, rule.type == ValueType::kEnum) << rule.name;
      if (rule.type == ValueType::kInteger || rule.type == ValueType::kNumber) {
        EXPECT_LT(rule.min, rule.max) << rule.name;
      }
    }
  }
}

TEST(OptionTables, ForeignNamesAreNoOptionsAndHaveASentence) {
  for (const SinkKind* kind : Kinds()) {
    for (const ForeignOption& foreign : kind->foreign_options) {
      EXPECT_EQ(FindOption(*kind, foreign.name), nullptr) << foreign.name;
      EXPECT_TRUE(std::string(foreign.hint).ends_with('.')) << foreign.name;
      const OptionProblem problem = CheckOption(*kind, OptionPlace::kServer, foreign.name, "x", true);
      EXPECT_EQ(problem.hint, foreign.hint) << foreign.name;
      EXPECT_STREQ(problem.sqlstate, "HV00D");
    }
  }
}

TEST(OptionTables, WhatIsFixedMayBeGivenAsItIs) {
  int fixed = 0;
  for (const SinkKind* kind : Kinds()) {
    for (const OptionRule& rule : OptionRules(*kind)) {
      if (rule.group != OptionGroup::kFixed || rule.canonical != nullptr) {
        continue;
      }
      EXPECT_FALSE(CheckOption(*kind, OptionPlace::kServer, rule.name, "other", true).ok()) << rule.name;
      EXPECT_FALSE(CheckOption(*kind, OptionPlace::kServer, rule.name, "", true).ok()) << rule.name;
      std::string values = rule.fixed_to == nullptr ? "" : rule.fixed_to;
      std::replace(values.begin(), values.end(), '|', ' ');
      for (const std::string& value : Words(values.c_str())) {
        fixed++;
        EXPECT_TRUE(CheckOption(*kind, OptionPlace::kServer, rule.name, value, false).ok()) << rule.name;
        EXPECT_FALSE(CheckOption(*kind, OptionPlace::kMapping, rule.name, value, true).ok()) << rule.name;
      }
    }
  }
  EXPECT_GE(fixed, 10);
  // It reaches no library, and by two names it is not given twice.
  Options merged;
  ASSERT_TRUE(MergeOptions(kKafka, {{"bootstrap.servers", "a:9092"}, {"acks", "all"}, {"request.required.acks", "-1"}},
                           {}, &merged)
                  .ok());
  EXPECT_EQ(merged, (Options{{"bootstrap.servers", "a:9092"}}));
}

std::string GoodValue(const OptionRule& rule) {
  switch (rule.type) {
    case ValueType::kText:
      return "text";
    case ValueType::kPem:
      return kPem;
    case ValueType::kBool:
      return "on";
    case ValueType::kInteger:
      return std::to_string(rule.max);
    case ValueType::kNumber:
      return std::to_string(rule.min) + ".5";
    case ValueType::kEnum:
      return std::string(rule.choices).substr(0, std::string(rule.choices).find('|'));
    case ValueType::kHosts:
      return "a.example:9092,[::1]:9093,10.0.0.1";
    case ValueType::kHost:
      return "redis.example";
    case ValueType::kWord:
      return "outbox/host@EXAMPLE.COM";
    case ValueType::kPath:
    case ValueType::kSocket:
      return "/etc/ssl/ca.pem";
  }
  return "";
}

// "The option reads a file of the server." is a sentence; "The option file with the private key." is none.
bool StartsWithVerb(std::string_view phrase) {
  const std::string_view word = phrase.substr(0, phrase.find(' '));
  return word == "can" || word.ends_with('s');
}

TEST(OptionTables, EveryRowObeysItsGroup) {
  for (const SinkKind* each : Kinds()) {
    const SinkKind& kind = *each;
    for (const OptionRule& rule : OptionRules(kind)) {
      if (rule.canonical != nullptr) {
        continue;
      }
      std::string value = GoodValue(rule);
      OptionProblem as_owner = CheckOption(kind, kServer, rule.name, value, false);
      OptionProblem as_superuser = CheckOption(kind, kServer, rule.name, value, true);
      OptionProblem in_mapping = CheckOption(kind, kMapping, rule.name, value, true);
      switch (rule.group) {
        case OptionGroup::kOwner:
          EXPECT_TRUE(as_owner.ok()) << rule.name << ": " << as_owner.message << as_owner.detail;
          EXPECT_STREQ(in_mapping.sqlstate, "HV00D") << rule.name;
          break;
        case OptionGroup::kSuperuser:
          EXPECT_STREQ(as_owner.sqlstate, "42501") << rule.name;
          EXPECT_TRUE(as_superuser.ok()) << rule.name << ": " << as_superuser.detail;
          EXPECT_TRUE(StartsWithVerb(rule.help)) << as_owner.detail;
          EXPECT_STREQ(in_mapping.sqlstate, "HV00D") << rule.name;
          break;
        case OptionGroup::kSecret:
          EXPECT_STREQ(as_superuser.sqlstate, "HV00D") << rule.name;
          EXPECT_NE(as_superuser.hint.find("CREATE USER MAPPING"), std::string::npos);
          EXPECT_EQ((as_superuser.message + as_superuser.detail + as_superuser.hint).find(value), std::string::npos)
              << "a secret in an error: " << rule.name;
          EXPECT_TRUE(CheckOption(kind, kMapping, rule.name, value, false).ok()) << rule.name;
          break;
        default:
          EXPECT_STREQ(as_superuser.sqlstate, "HV00D") << rule.name;
          EXPECT_STREQ(in_mapping.sqlstate, "HV00D") << rule.name;
          EXPECT_TRUE(as_superuser.detail.ends_with('.')) << rule.name;
      }
    }
  }
}

// They are more than fit a short hint, and no other kind's sentence stands for them.
TEST(OptionNames, AnUnknownOneOfRedisIsToldThoseOfRedis) {
  const OptionProblem problem = CheckOption(kRedis, kServer, "zzzzzzzzzzzzzzzz", "a", true);
  EXPECT_STREQ(problem.sqlstate, "HV00D");
  EXPECT_NE(problem.hint.find("on_lost_writes"), std::string::npos) << problem.hint;
  EXPECT_EQ(problem.hint.find("librdkafka"), std::string::npos) << problem.hint;
  EXPECT_NE(CheckOption(kKafka, kServer, "zzzzzzzzzzzzzzzz", "a", true).hint.find("librdkafka"), std::string::npos);
}

TEST(OptionValues, OutOfBoundsIsRefusedEverywhere) {
  for (const SinkKind* each : Kinds()) {
    const SinkKind& kind = *each;
    for (const OptionRule& rule : OptionRules(kind)) {
      if (rule.canonical != nullptr || (rule.group != OptionGroup::kOwner && rule.group != OptionGroup::kSuperuser)) {
        continue;
      }
      std::vector<std::string> bad = {"", std::string("a\0b", 3), "a\nb", "a\tb", "\x7f", std::string(300000, 'x')};
      if (rule.type == ValueType::kWord) {
        bad.insert(bad.end(), {"hello world", "=", "a;b", "$(a)", "'a'"});
      } else if (rule.type != ValueType::kText && rule.type != ValueType::kPath && rule.type != ValueType::kSocket) {
        bad.insert(bad.end(), {"hello world", "-", "=", "a;b"});
      }
      if (rule.type == ValueType::kInteger || rule.type == ValueType::kNumber) {
        bad.insert(bad.end(), {"1e3", " 1", "1 ", "0x10", "nan", "inf", "+5", "1.2.3"});
        bad.push_back(std::to_string(rule.max + 1));
        bad.push_back(std::to_string(rule.min - 1));
        bad.push_back("99999999999999999999999999");
        bad.push_back(std::string(400, '9'));  // more than a double holds
      }
      if (rule.type == ValueType::kPath || rule.type == ValueType::kSocket) {
        bad.insert(bad.end(), {"relative", "/etc/../secret"});
      }
      for (const std::string& value : bad) {
        OptionProblem problem = CheckOption(kind, kServer, rule.name, value, true);
        EXPECT_STREQ(problem.sqlstate, "22023") << rule.name << " took: " << value.substr(0, 40);
        EXPECT_TRUE(problem.detail.starts_with("The value must be ")) << problem.detail;
        EXPECT_LT(problem.message.size(), 300u);
      }
    }
  }
}

TEST(OptionValues, BootstrapServers) {
  for (const char* good : {"a", "a:1", "a:65535", "a.b-c_d:9092, b:9093", "[::1]", "[fe80::1]:9092", "10.1.2.3:9092"}) {
    EXPECT_TRUE(CheckOption(kKafka, kServer, "bootstrap.servers", good, false).ok()) << good;
  }
  for (const char* bad : {"",    ",",   "a,",    ",a",       "a:",   "a:0",  "a:65536",
                          "a:b", "a b", "a:1:2", "::1",      "[::1", "[]:1", "PLAINTEXT://a:1",
                          "-a",  ".a",  "a;b",   "a:1,,b:1", "a/b",  "$(x)", "a:9092 b:9092"}) {
    EXPECT_FALSE(CheckOption(kKafka, kServer, "bootstrap.servers", bad, true).ok()) << bad;
  }
}

TEST(OptionValues, KerberosNamesCannotCarryShellText) {
  EXPECT_TRUE(CheckOption(kKafka, kServer, "sasl.kerberos.principal", "svc/host@EXAMPLE.COM", true).ok());
  for (const char* bad : {"x;id", "x y", "$(id)", "`id`", "a|b", "a&b", "a'b", "a\"b", "a>b"}) {
    EXPECT_FALSE(CheckOption(kKafka, kServer, "sasl.kerberos.principal", bad, true).ok()) << bad;
    EXPECT_FALSE(CheckOption(kKafka, kServer, "sasl.kerberos.service.name", bad, true).ok()) << bad;
    EXPECT_FALSE(CheckOption(kKafka, kServer, "sasl.kerberos.keytab", std::string("/") + bad, true).ok()) << bad;
  }
}

TEST(OptionValues, SomeChoicesAreForSuperusers) {
  EXPECT_TRUE(CheckOption(kKafka, kServer, "security.protocol", "SASL_SSL", false).ok());
  EXPECT_STREQ(CheckOption(kKafka, kServer, "security.protocol", "SASL_PLAINTEXT", false).sqlstate, "42501");
  EXPECT_TRUE(CheckOption(kKafka, kServer, "security.protocol", "sasl_plaintext", true).ok());
  EXPECT_STREQ(CheckOption(kKafka, kServer, "sasl.mechanisms", "gssapi", false).sqlstate, "42501");
  EXPECT_TRUE(CheckOption(kKafka, kServer, "sasl.mechanisms", "SCRAM-SHA-512", false).ok());
  EXPECT_STREQ(CheckOption(kKafka, kServer, "partitioner", "random", true).sqlstate, "22023") << "keys need order";
}

TEST(UnknownOptions, ListNearMatches) {
  OptionProblem problem = CheckOption(kKafka, kServer, "bootstrap.server", "a:1", true);
  EXPECT_STREQ(problem.sqlstate, "HV00D");
  EXPECT_EQ(problem.message, "unknown option \"bootstrap.server\" for outbox_kafka");
  EXPECT_TRUE(problem.hint.starts_with("Did you mean \"bootstrap.servers\"")) << problem.hint;
  EXPECT_TRUE(CheckOption(kKafka, kServer, "bootstrap_servers", "a:1", true).hint.find("\"bootstrap.servers\"") !=
              std::string::npos);
  EXPECT_TRUE(CheckOption(kKafka, kServer, "Linger.MS", "1", true).hint.find("\"linger.ms\"") != std::string::npos);
  EXPECT_EQ(CheckOption(kRedis, kServer, "hots", "a", true).hint.substr(0, 19), "Did you mean \"host\"");
  EXPECT_EQ(CheckOption(kRedis, kServer, "zzzzzzzzzz", "a", true).hint.find("Did you mean"), std::string::npos);
  EXPECT_NE(CheckOption(kLog, kServer, "zzzzzzzzzz", "a", true).hint.find("body_limit"), std::string::npos);
  EXPECT_EQ(CheckOption(kLog, kMapping, "zzzzzzzzzz", "a", true).detail,
            "A user mapping of outbox_log takes no options.");
  // What is never allowed is never suggested.
  EXPECT_EQ(CheckOption(kKafka, kServer, "plugin.library.path", "a", true).hint.find("plugin"), std::string::npos);
  std::string huge(100000, 'x');
  EXPECT_FALSE(CheckOption(kKafka, kServer, huge, "a", true).ok());
}

TEST(OptionLists, ATwinThroughAnAliasIsADuplicate) {
  OptionProblem problem =
      CheckOptions(kKafka, kServer, {{"bootstrap.servers", "a:1"}, {"metadata.broker.list", "b:1"}}, true);
  EXPECT_STREQ(problem.sqlstate, "42710");
  EXPECT_NE(problem.detail.find("\"bootstrap.servers\" and \"metadata.broker.list\""), std::string::npos);
  EXPECT_TRUE(CheckOptions(kKafka, kServer, {{"bootstrap.servers", "a:1"}, {"linger.ms", "2"}}, false).ok());
  EXPECT_STREQ(CheckOptions(kRedis, kServer, {{"host", "a"}, {"unix_socket", "/run/redis"}}, true).sqlstate, "22023");
  EXPECT_STREQ(CheckOptions(kRedis, kServer, {{"ca_pem", kPem}}, true).sqlstate, "22023");
  EXPECT_TRUE(CheckOptions(kRedis, kServer, {{"ca_pem", kPem}, {"tls", "on"}}, false).ok());
}

// The library says so only when a client is made of them, which stops the destination.
TEST(OptionLists, WhatTheLibraryRefusesTogetherIsRefused) {
  const std::vector<OptionList> refused = {
      {{"reconnect.backoff.ms", "5000"}, {"reconnect.backoff.max.ms", "4999"}},
      {{"https.ca.pem", kPem}, {"https.ca.location", "/ca.pem"}},
      {{"sasl.oauthbearer.method", "oidc"}, {"enable.sasl.oauthbearer.unsecure.jwt", "on"}}};
  for (const OptionList& options : refused) {
    const OptionProblem problem = CheckOptions(kKafka, kServer, options, true);
    EXPECT_STREQ(problem.sqlstate, "22023");
    for (const auto& [name, value] : options) {
      EXPECT_NE(problem.message.find('"' + name + '"'), std::string::npos) << problem.message;
      EXPECT_TRUE(CheckOptions(kKafka, kServer, {{name, value}}, true).ok()) << name << " alone";
    }
  }
  EXPECT_TRUE(
      CheckOptions(kKafka, kServer, {{"reconnect.backoff.ms", "5000"}, {"reconnect.backoff.max.ms", "5000"}}, false)
          .ok());
}

// Acknowledgements of every topic wait for a round trip after each try to connect to a broker that is dead.
TEST(OptionLists, ConnectingAgainWithoutADelayIsRefused) {
  for (const auto& [name, value] : OptionList{{"reconnect.backoff.ms", "0"}, {"reconnect.backoff.max.ms", "99"}}) {
    const OptionProblem problem = CheckOptions(kKafka, kServer, {{name, value}}, true);
    EXPECT_STREQ(problem.sqlstate, "22023") << name;
    EXPECT_NE(problem.message.find('"' + name + '"'), std::string::npos) << problem.message;
  }
}

TEST(MergeOptions, GivesCanonicalNamesAndSpelling) {
  Options merged;
  OptionProblem problem = MergeOptions(kKafka,
                                       {{"metadata.broker.list", "a:1, b:2"},
                                        {"queue.buffering.max.ms", "5"},
                                        {"socket.nagle.disable", "ON"},
                                        {"security.protocol", "SASL_SSL"},
                                        {"sasl.mechanisms", "scram-sha-256"}},
                                       {{"sasl.username", "u"}, {"sasl.password", "p"}}, &merged);
  ASSERT_TRUE(problem.ok()) << problem.message << problem.detail;
  EXPECT_EQ(merged, (Options{{"bootstrap.servers", "a:1,b:2"},
                             {"linger.ms", "5"},
                             {"socket.nagle.disable", "true"},
                             {"security.protocol", "sasl_ssl"},
                             {"sasl.mechanism", "SCRAM-SHA-256"},
                             {"sasl.username", "u"},
                             {"sasl.password", "p"}}));
  EXPECT_EQ(IntegerOption(merged, "linger.ms", 7), 5);
  EXPECT_EQ(IntegerOption(merged, "batch.size", 7), 7);
  EXPECT_TRUE(BoolOption(merged, "socket.nagle.disable", false));
  EXPECT_EQ(TextOption(merged, "client.id", "outbox"), "outbox");
}

// librdkafka reads integers in C's way, where 010 is eight.
TEST(MergeOptions, GivesIntegersWithoutLeadingZeros) {
  Options merged;
  ASSERT_TRUE(MergeOptions(kKafka, {{"bootstrap.servers", "a:1"}, {"batch.size", "0100"}, {"retry.backoff.ms", "08"}},
                           {}, &merged)
                  .ok());
  EXPECT_EQ(merged.at("batch.size"), "100");
  EXPECT_EQ(merged.at("retry.backoff.ms"), "8");
}

TEST(MergeOptions, RefusesWhatGotIntoTheCatalogSomehow) {
  Options merged{{"untouched", ""}};
  EXPECT_FALSE(MergeOptions(kKafka, {{"bootstrap.servers", "a:1"}, {"plugin.library.paths", "x"}}, {}, &merged).ok());
  EXPECT_FALSE(MergeOptions(kKafka, {{"bootstrap.servers", "a:1"}, {"sasl.password", "x"}}, {}, &merged).ok());
  EXPECT_FALSE(MergeOptions(kKafka, {{"bootstrap.servers", "a:1"}}, {{"acks", "0"}}, &merged).ok());
  EXPECT_FALSE(MergeOptions(kKafka, {}, {}, &merged).ok()) << "no brokers";
  EXPECT_FALSE(MergeOptions(kKafka, {{"bootstrap.servers", "a:1"}}, {{"sasl.password", "x"}}, &merged).ok())
      << "a password that would not be used";
  EXPECT_FALSE(MergeOptions(kRedis, {}, {{"username", "x"}}, &merged).ok());
  EXPECT_FALSE(MergeOptions(kRedis, {}, {{"certificate_pem", kPem}, {"key_pem", kPem}}, &merged).ok()) << "no TLS";
  EXPECT_EQ(merged, (Options{{"untouched", ""}}));
  EXPECT_TRUE(MergeOptions(kRedis, {}, {}, &merged).ok()) << "localhost:6379";
}

}  // namespace
}  // namespace outbox::sink
