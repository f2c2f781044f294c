// matrix: D11 D12 D17
// What the library is really called with, whatever the options say, and what depends on it: its own deadline, its own
// queue, telemetry.
#include <gtest/gtest.h>

#include "kafka_sink_fixture.h"
#include "sink/kafka/client_trouble.h"
#include "sink/kafka/options.h"
#include "sink/options.h"

namespace outbox::sink::kafka {
namespace {

class KafkaSettingsTest : public KafkaSinkTest {
 protected:
  // Of the producer that runs now; "(unknown)" where this version of the library has no such property.
  std::string Effective(const std::string& name) {
    char value[512];
    size_t size = sizeof value;
    return rd_kafka_conf_get(rd_kafka_conf(producers_.handle()), name.c_str(), value, &size) == RD_KAFKA_CONF_OK
               ? value
               : "(unknown)";
  }
};

TEST_F(KafkaSettingsTest, WhatOrderAndDeliveryRestOnCannotBeChosen) {
  // The validator refuses all of these; they could be in the catalog of a database that was not always ours.
  Open({{"message.timeout.ms", "2000"},
        {"delivery.timeout.ms", "2000"},
        {"enable.idempotence", "false"},
        {"enable.gapless.guarantee", "false"},
        {"acks", "1"},
        {"request.required.acks", "1"},
        {"queue.buffering.max.messages", "10"},
        {"enable.metrics.push", "true"},
        {"log.connection.close", "true"}});
  EXPECT_EQ(Effective("message.timeout.ms"), "0");  // never shorter than an outage
  EXPECT_EQ(Effective("enable.idempotence"), "true");
  EXPECT_EQ(Effective("enable.gapless.guarantee"), "true");
  EXPECT_EQ(Effective("acks"), "-1");
  EXPECT_EQ(Effective("queue.buffering.max.messages"), "10000000");
  EXPECT_EQ(Effective("queue.buffering.max.kbytes"), "2097151");
  EXPECT_EQ(Effective("log.connection.close"), "false");
  // Telemetry came with 2.5, and once aborted the process.
  EXPECT_EQ(Effective("enable.metrics.push"), rd_kafka_version() < 0x02050000 ? "(unknown)" : "false");
}

// Quotas go by it: docs/options.md has what the help says.
TEST_F(KafkaSettingsTest, TheNameInQuotasIsTheOneThatIsTold) {
  SinkConfig config;
  config.name = "events";
  config.options = {{"bootstrap.servers", "localhost:1"}};
  Settings settings;
  ASSERT_TRUE(MakeSettings(config, &settings).ok());
  EXPECT_EQ(settings.defaults["client.id"], "outbox-events");
  for (const OptionRule& rule : OptionRules()) {
    if (rule.name == std::string("client.id")) {
      EXPECT_TRUE(std::string(rule.help).ends_with("(default outbox- and the server's name)")) << rule.help;
    }
  }
}

TEST_F(KafkaSettingsTest, WhatOnlyTunesIsLeftOutWhereTheLibraryDoesNotKnowIt) {
  Open({{"client.dns.lookup", "use_all_dns_ips"},
        {"metadata.recovery.strategy", "rebootstrap"},
        {"metadata.recovery.rebootstrap.trigger.ms", "300000"},
        {"retry.backoff.max.ms", "1000"}});
  EXPECT_EQ(Effective("client.dns.lookup"), rd_kafka_version() < 0x02020000 ? "(unknown)" : "use_all_dns_ips");
  // A value that it refuses is not left out, and what it would be wrong to do without neither.
  Settings settings;
  SinkConfig config;
  config.options = {{"bootstrap.servers", "localhost:1"}, {"made.up", "1"}};
  EXPECT_FALSE(MakeSettings(config, &settings).ok());
}

// Bounds of ours are within those of the library, and its checks of one option against another stand in nobody's way.
TEST_F(KafkaSettingsTest, EachOptionAloneMakesAClientAtItsEnds) {
  std::vector<std::pair<std::string, std::string>> tries;
  for (const OptionRule& rule : OptionRules()) {
    const bool number = rule.type == ValueType::kInteger || rule.type == ValueType::kNumber;
    if (rule.canonical == nullptr && (rule.group == OptionGroup::kOwner || rule.group == OptionGroup::kSuperuser) &&
        number) {
      tries.emplace_back(rule.name, std::to_string(rule.min));
      tries.emplace_back(rule.name, std::to_string(rule.max));
    }
  }
  tries.emplace_back("reconnect.backoff.ms", "2001");
  EXPECT_GT(tries.size(), 50u);
  for (const auto& [name, value] : tries) {
    SinkConfig config;
    config.options = {{"bootstrap.servers", "localhost:1"}, {name, value}};
    Settings settings;
    rd_kafka_conf_t* conf = nullptr;
    const Status status = MakeSettings(config, &settings);
    if (!status.ok()) {
      EXPECT_NE(status.error().message.find("does not know"), std::string::npos) << name << " = " << value;
      continue;
    }
    ASSERT_TRUE(settings.MakeConf(&conf).ok());
    char text[512] = "";
    rd_kafka_t* client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    EXPECT_NE(client, nullptr) << name << " = " << value << ": " << text;
    if (client == nullptr) {
      rd_kafka_conf_destroy(conf);
    } else {
      rd_kafka_destroy(client);
    }
  }
}

// The library keeps records for linger.ms: nothing is stalled by that, and nothing forgotten.
TEST_F(KafkaSettingsTest, RecordsThatWaitForABatchToFillAreWaitedFor) {
  const Patience usual = SettingsFor(cluster_, {}).patience;
  EXPECT_EQ(usual.stalled, 15'000'000);
  const Patience most = SettingsFor(cluster_, {{"linger.ms", "60000"}}).patience;
  EXPECT_EQ(most.stalled - usual.stalled, 60'000'000);
  EXPECT_EQ(most.refused - usual.refused, 60'000'000);
  Settings settings = SettingsFor(cluster_, {{"linger.ms", "6000.5"}});
  settings.patience.stalled -= 12'000'000;  // as if the usual patience were 3 s
  OpenWith(std::move(settings));
  cluster_.CreateTopic("lingers", 1);
  const uint64_t seq = driver_->Submit(1, 0, Numbered("lingers", 0, 1, 1));
  EXPECT_TRUE(driver_->Until([&] { return sink_->health().sending; })) << "no silence that anybody need end";
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(seq), Outcome::kDelivered) << driver_->error(seq).code;
  EXPECT_EQ(producers_.made(), 1u);
}

// What an old library cannot do is not the password's fault, nor the certificate's.
TEST_F(KafkaSettingsTest, WhatAnOldLibraryCannotDoIsSaid) {
  const int old = 0x020002ff;
  Settings settings;
  SinkConfig config;
  config.options = {{"bootstrap.servers", "localhost:1"}, {"sasl.mechanism", "SCRAM-SHA-512"}};
  ASSERT_TRUE(MakeSettings(config, &settings).ok());
  const int refused = RD_KAFKA_RESP_ERR__AUTHENTICATION;
  const std::string scram = "sasl_ssl://k:1/bootstrap: SASL authentication error (after 3ms in state AUTH_REQ)";
  EXPECT_NE(settings.Explain(refused, scram, old).find("cannot log in by SCRAM"), std::string::npos);
  EXPECT_EQ(settings.Explain(refused, scram, 0x020601ff), scram);
  EXPECT_EQ(settings.Explain(RD_KAFKA_RESP_ERR__TRANSPORT, scram, old), scram);
  settings.chosen["sasl.mechanism"] = "PLAIN";
  EXPECT_EQ(settings.Explain(refused, scram, old), scram);

  const int tls = RD_KAFKA_RESP_ERR__SSL;
  const std::string alert = "ssl://k:1/bootstrap: Receive failed: SSL alert number 48";
  const std::string certificate = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";
  settings.chosen["ssl.certificate.pem"] = certificate;
  EXPECT_EQ(settings.Explain(tls, alert, old), alert);
  settings.chosen["ssl.certificate.pem"] = certificate + certificate;
  EXPECT_NE(settings.Explain(tls, alert, old).find("only the first certificate"), std::string::npos);
  EXPECT_EQ(settings.Explain(tls, alert, 0x020800ff), alert);
}

// No password is wrong where a login takes none: what is missing is on the machine.
TEST_F(KafkaSettingsTest, KerberosWantsAModuleAndATicket) {
  Settings settings;
  SinkConfig config;
  config.options = {{"bootstrap.servers", "localhost:1"}, {"security.protocol", "sasl_plaintext"}};
  ASSERT_TRUE(MakeSettings(config, &settings).ok());
  const std::string start = "sasl_plaintext://k:1/bootstrap: SASL handshake failed (start (-4)): ";
  const std::string module = start + "no mechanism available: No worthy mechs found (after 2ms in state AUTH_LEGACY)";
  const std::string ticket = start + "GSSAPI Error: No credentials were supplied (after 6ms in state AUTH_LEGACY)";
  for (const char* mechanism : {"", "GSSAPI", "PLAIN"}) {
    settings.chosen["sasl.mechanism"] = mechanism;
    if (mechanism[0] == '\0') {
      settings.chosen.erase("sasl.mechanism");  // the library's own choice
    }
    const bool kerberos = mechanism != std::string("PLAIN");
    for (const std::string& text : {module, ticket}) {
      Error error{ErrorClass::kConfig, "_AUTHENTICATION", settings.Explain(RD_KAFKA_RESP_ERR__AUTHENTICATION, text)};
      const char* names = text == module ? "libsasl2-modules-gssapi-mit" : "ticket of the server's user";
      EXPECT_EQ(error.message.find(names) != std::string::npos, kerberos) << error.message;
      EXPECT_EQ(ConnectionHint(error).find("user mapping") == std::string::npos, kerberos) << ConnectionHint(error);
    }
  }
}

// Better no sink than one that ends with a crash whenever a token is renewed.
TEST_F(KafkaSettingsTest, TokensThatTheLibraryCannotRenewAreRefused) {
  const Options tokens = {{"security.protocol", "sasl_plaintext"},
                          {"sasl.mechanism", "OAUTHBEARER"},
                          {"enable.sasl.oauthbearer.unsecure.jwt", "true"},
                          {"sasl.oauthbearer.config", "principal=outbox"}};
  EXPECT_TRUE(CrashesAtRenewal(tokens, 0x020002ff));
  EXPECT_TRUE(CrashesAtRenewal(tokens, 0x020101ff));
  EXPECT_FALSE(CrashesAtRenewal(tokens, 0x020200ff));
  Options fetched = tokens;
  fetched.erase("enable.sasl.oauthbearer.unsecure.jwt");
  EXPECT_FALSE(CrashesAtRenewal(fetched, 0x020002ff));

  SinkConfig config;
  config.options = tokens;
  config.options["bootstrap.servers"] = "localhost:1";
  Settings settings;
  const Status status = MakeSettings(config, &settings);
  EXPECT_EQ(status.ok(), !CrashesAtRenewal(tokens, rd_kafka_version())) << status.error().message;
  if (!status.ok()) {
    EXPECT_EQ(status.error().error_class, ErrorClass::kConfig);
    EXPECT_NE(status.error().message.find("that takes librdkafka 2.2.0"), std::string::npos);
  }
}

TEST_F(KafkaSettingsTest, AnOutageLongerThanAnyTimeoutThatWasAskedForFailsNothing) {
  cluster_.CreateTopic("outage", 2);
  Open({{"message.timeout.ms", "300"}, {"delivery.timeout.ms", "300"}, {"reconnect.backoff.max.ms", "100"}});
  Warm("outage", 1, 2);
  rd_kafka_mock_broker_set_down(cluster_.get(), 1);
  driver_->Submit(1, 1, Numbered("outage", 0, 200, 5));
  driver_->Until([] { return false; }, 1.5);
  EXPECT_EQ(driver_->resolved(), 2u);
  rd_kafka_mock_broker_set_up(cluster_.get(), 1);
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 202u);
  ExpectOrdered(ReadAll(cluster_.bootstrap(), "outage", 2), 200);
}

// With a queue a thousandth of what a batch of the engine can hold: what does not fit waits in the sink, in order, and
// nobody spins meanwhile.
TEST_F(KafkaSettingsTest, AFullQueueOfTheLibraryHoldsBackAndDropsNothing) {
  cluster_.CreateTopic("full", 3);
  Settings settings = SettingsFor(cluster_, {});
  settings.fixed["queue.buffering.max.messages"] = "10";
  settings.fixed["batch.num.messages"] = "10";
  OpenWith(std::move(settings));
  Warm("full", 1, 3);
  cluster_.SetRoundTrip(20);
  for (int i = 0; i < 10; ++i) {
    driver_->Submit(1, 1, Numbered("full", i * 30, 30, 7));
    EXPECT_LE(rd_kafka_outq_len(producers_.handle()), 10);
  }
  int turns = 0;
  const auto resolved = [&] {
    ++turns;
    return driver_->resolved() == driver_->submitted();
  };
  ASSERT_TRUE(driver_->Until(resolved, 30));
  EXPECT_LT(turns, 1000);  // 30 requests or more, of 20 ms
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 303u);
  EXPECT_EQ(producers_.made(), 1u);
  ExpectOrdered(ReadAll(cluster_.bootstrap(), "full", 3), 300);
}

}  // namespace
}  // namespace outbox::sink::kafka
