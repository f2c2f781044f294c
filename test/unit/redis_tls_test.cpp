// matrix: D8
// TLS to Redis.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <poll.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "redis_server.h"
#include "sink/redis/redis_sink.h"
#include "sink/redis/tls.h"
#include "sink_driver.h"

namespace outbox::sink {
namespace {

class RedisTlsTest : public ::testing::Test {
 protected:
  bool Begin(const std::string& ask_clients = "no") {
    signal(SIGPIPE, SIG_IGN);
    std::string key = server_.directory() + "/key.pem";
    std::string certificate = server_.directory() + "/certificate.pem";
    std::string make =
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=redis.test -addext "
        "subjectAltName=DNS:redis.test -keyout " +
        key + " -out " + certificate + " 2>/dev/null";
    port_ = std::to_string(FreePort());
    arguments_ = {"--tls-port",         port_,       "--tls-cert-file",    certificate, "--tls-key-file", key,
                  "--tls-ca-cert-file", certificate, "--tls-auth-clients", ask_clients};
    if (system(make.c_str()) != 0 || !server_.Start(arguments_)) {
      return false;
    }
    certificate_ = Text(certificate);
    key_ = Text(key);
    return true;
  }
  static std::string Text(const std::string& name) {
    std::ifstream file(name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void Connect(Options options) {
    options.insert({{"host", "127.0.0.1"}, {"port", port_}, {"tls", "true"}});
    ASSERT_TRUE(RedisSink::Make({"test", options, 0, 0}, &sink_).ok());
    driver_ = std::make_unique<Driver>(sink_.get());
  }
  void ExpectDelivered(size_t size = 300, uint32_t epoch = 0) {
    std::vector<TestRecord> records(5000, TestRecord{"s", "k", std::string(size, 'x'), RecordForm::kStream, {}});
    const size_t before = driver_->Count(Outcome::kDelivered);
    driver_->Submit(1, epoch, records);
    ASSERT_TRUE(driver_->UntilResolved(60));
    EXPECT_GE(driver_->Count(Outcome::kDelivered) - before, 5000u) << sink_->health().error.message;
  }
  void ExpectDistrusted() {
    driver_->Submit(1, 0, {{"s", "k", "x", RecordForm::kStream, {}}});
    ASSERT_TRUE(driver_->UntilResolved());
    EXPECT_EQ(driver_->Count(Outcome::kAborted), 1u);
    EXPECT_EQ(sink_->health().error.error_class, ErrorClass::kConfig) << sink_->health().error.message;
    EXPECT_EQ(sink_->health().error.code, "TLS");
  }

  RedisServer server_;
  std::vector<std::string> arguments_;
  std::string port_;
  std::string certificate_;
  std::string key_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<Driver> driver_;
};

TEST_F(RedisTlsTest, TrustsTheRightCertificateUnderTheRightNameOnly) {
  if (!Begin()) {
    GTEST_SKIP() << "no redis-server with TLS, or no openssl";
  }
  Connect({{"ca_pem", certificate_}, {"tls_server_name", "redis.test"}});
  ExpectDelivered();
  Connect({{"ca_pem", certificate_}});  // the name is 127.0.0.1 then
  ExpectDistrusted();
  Connect({{"tls_server_name", "redis.test"}});  // the system's authorities
  ExpectDistrusted();
  Connect({{"tls_verify", "false"}});
  ExpectDelivered();
}

// A server that says nothing in the handshake: the sink sleeps until its deadline.
TEST_F(RedisTlsTest, AHandshakeIsWaitedForWithoutTurningInCircles) {
  if (!Begin()) {
    GTEST_SKIP() << "no redis-server with TLS, or no openssl";
  }
  Connect({{"ca_pem", certificate_}, {"tls_server_name", "redis.test"}});
  server_.Signal(SIGSTOP);  // the kernel goes on accepting connections
  driver_->Submit(1, 0, {{"s", "k", "x", RecordForm::kStream, {}}});
  int turns = 0;
  driver_->Until([&] { return ++turns > 10000; }, 0.5);  // each waits for 20 ms where nothing happens
  EXPECT_LT(turns, 60);
  server_.Signal(SIGCONT);
  ExpectDelivered();
}

// More than the socket takes at once: 5,000 records of 8 KB, and as many replies.
TEST_F(RedisTlsTest, MoreThanASocketTakes) {
  if (!Begin()) {
    GTEST_SKIP() << "no redis-server with TLS, or no openssl";
  }
  Connect({{"ca_pem", certificate_}, {"tls_server_name", "redis.test"}});
  ExpectDelivered(8192);
  EXPECT_EQ(server_.Integer({"XLEN", "s"}), 5000);
  EXPECT_EQ(server_.Stream("s").back().back().size(), 8192u);
}

// Who asks for a certificate gets one; without one it is said by whom the connection was ended, and why.
TEST_F(RedisTlsTest, ACertificateOfItsOwn) {
  if (!Begin("yes")) {
    GTEST_SKIP() << "no redis-server with TLS, or no openssl";
  }
  Connect({{"ca_pem", certificate_}, {"tls_server_name", "redis.test"}});
  driver_->Submit(1, 0, {{"s", "k", "x", RecordForm::kStream, {}}});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kAborted), 1u);
  EXPECT_EQ(sink_->health().error.error_class, ErrorClass::kConfig);
  EXPECT_EQ(sink_->health().error.code, "TLS") << sink_->health().error.message;
  EXPECT_NE(std::string(TlsHint(sink_->health().error.message)).find("certificate_file"), std::string::npos);
  EXPECT_NE(sink_->health().error.message.find("certificate required"), std::string::npos)
      << sink_->health().error.message;
  Connect({{"ca_pem", certificate_},
           {"tls_server_name", "redis.test"},
           {"certificate_pem", certificate_},
           {"key_pem", key_}});
  ExpectDelivered();
}

// The server has said why and reset the connection before a request is written.
TEST_F(RedisTlsTest, WhatItSaidIsReadAfterAWriteThatFailed) {
  if (!Begin("yes")) {
    GTEST_SKIP() << "no redis-server with TLS, or no openssl";
  }
  std::shared_ptr<TlsContext> tls;
  ASSERT_TRUE(MakeTls({{"tls", "true"}, {"ca_pem", certificate_}, {"tls_server_name", "redis.test"}}, &tls).ok());
  std::unique_ptr<redisContext, decltype(&redisFree)> tcp(redisConnect("127.0.0.1", std::stoi(port_)), redisFree);
  ASSERT_EQ(tcp->err, 0);
  ASSERT_EQ(fcntl(tcp->fd, F_SETFL, O_NONBLOCK), 0);
  std::unique_ptr<TlsSession> session;
  ASSERT_TRUE(tls->Start(tcp->fd, &session).ok());
  size_t count = 0;
  pollfd ready{tcp->fd, POLLIN, 0};
  TlsSession::Result result = session->Write({}, &count);  // the handshake only
  while (result == TlsSession::Result::kWaitsForRead && poll(&ready, 1, 10000) == 1) {
    result = session->Write({}, &count);
  }
  ASSERT_EQ(result, TlsSession::Result::kMoved);
  pollfd reset{tcp->fd, 0, 0};
  ASSERT_EQ(poll(&reset, 1, 10000), 1);
  EXPECT_EQ(session->Write("x", &count), TlsSession::Result::kFailed);
  char bytes[TlsSession::kLargestRecord];
  EXPECT_EQ(session->Read(bytes, sizeof(bytes), &count), TlsSession::Result::kFailed);
  EXPECT_EQ(session->failure().code, "TLS");
  EXPECT_NE(session->failure().message.find("certificate required"), std::string::npos) << session->failure().message;
}

// One that is killed says no good-bye; one that is asked to go says one.
TEST_F(RedisTlsTest, AServerThatGoesIsDestinationTrouble) {
  if (!Begin()) {
    GTEST_SKIP() << "no redis-server with TLS, or no openssl";
  }
  Connect({{"ca_pem", certificate_}, {"tls_server_name", "redis.test"}});
  uint32_t epoch = 0;
  ExpectDelivered(300, epoch);
  for (int how : {SIGKILL, SIGTERM}) {
    server_.Stop(how);
    ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }));
    EXPECT_EQ(sink_->health().error.error_class, ErrorClass::kDestination);
    EXPECT_EQ(sink_->health().error.code, "CONNECTION_CLOSED") << sink_->health().error.message;
    ASSERT_TRUE(server_.Start(arguments_));
    ASSERT_TRUE(driver_->Until([&] { return sink_->health().up; })) << sink_->health().error.message;
    ExpectDelivered(300, ++epoch);
  }
}

// A certificate is renewed under its name, and its key a moment later: the sink that runs takes both.
TEST_F(RedisTlsTest, FilesThatAreRenewedAreReadAgain) {
  if (!Begin("yes")) {
    GTEST_SKIP() << "no redis-server with TLS, or no openssl";
  }
  const std::string own = server_.directory() + "/own.pem";
  const std::string own_key = server_.directory() + "/own.key";
  const std::string authority = server_.directory() + "/authority.pem";
  ASSERT_EQ(system(("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=stranger -keyout " + own_key +
                    " -out " + own + " 2>/dev/null && cp " + own + " " + authority)
                       .c_str()),
            0);
  Connect(
      {{"ca_file", authority}, {"tls_server_name", "redis.test"}, {"certificate_file", own}, {"key_file", own_key}});
  ExpectDistrusted();
  const auto renew = [](const std::string& name, const std::string& text) {
    std::ofstream(name + ".new") << text;
    ASSERT_EQ(rename((name + ".new").c_str(), name.c_str()), 0);
  };
  renew(authority, certificate_);
  ASSERT_TRUE(driver_->Until(
      [&] { return sink_->health().error.message.find("refuses the certificate") != std::string::npos; }, 30))
      << sink_->health().error.message;
  EXPECT_EQ(sink_->health().error.error_class, ErrorClass::kConfig);
  renew(own, certificate_);
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().error.message.find("key_file") != std::string::npos; }, 30))
      << sink_->health().error.message;
  renew(own_key, key_);
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().up; }, 30)) << sink_->health().error.message;
  ExpectDelivered(300, 1);
}

TEST_F(RedisTlsTest, WhyItIsNotTrustedIsSaid) {
  if (!Begin()) {
    GTEST_SKIP() << "no redis-server with TLS, or no openssl";
  }
  const auto said = [&](Options options) {
    Connect(std::move(options));
    ExpectDistrusted();
    return sink_->health().error.message;
  };
  const std::string misnamed = said({{"ca_pem", certificate_}, {"tls_server_name", "other.test"}});
  EXPECT_NE(misnamed.find("other.test"), std::string::npos) << misnamed;
  EXPECT_NE(std::string(TlsHint(misnamed)).find("tls_server_name"), std::string::npos) << misnamed;
  const std::string unknown = said({{"tls_server_name", "redis.test"}});
  EXPECT_NE(std::string(TlsHint(unknown)).find("ca_pem"), std::string::npos) << unknown;
  const std::string directory = server_.directory();
  ASSERT_EQ(system(("openssl req -new -key " + directory + "/key.pem -subj /CN=redis.test -out " + directory +
                    "/request 2>/dev/null && openssl x509 -req -in " + directory + "/request -signkey " + directory +
                    "/key.pem -days -1 -out " + directory + "/certificate.pem 2>/dev/null")
                       .c_str()),
            0);
  server_.Stop(SIGKILL);
  ASSERT_TRUE(server_.Start(arguments_));
  const std::string expired =
      said({{"ca_pem", Text(directory + "/certificate.pem")}, {"tls_server_name", "redis.test"}});
  EXPECT_NE(expired.find("expired"), std::string::npos) << expired;
  EXPECT_NE(std::string(TlsHint(expired)).find("renewed"), std::string::npos) << expired;
}

TEST(RedisTls, AFileThatCannotBeReadIsNamed) {
  std::shared_ptr<TlsContext> tls;
  const Status status = MakeTls({{"tls", "true"}, {"ca_file", "/nowhere/ca.pem"}}, &tls);
  EXPECT_EQ(status.error().message,
            "could not open the file \"/nowhere/ca.pem\" of option \"ca_file\": No such file or directory");
}

TEST(RedisTls, AnUnusableCertificateIsConfiguration) {
  std::unique_ptr<Sink> sink;
  Status status = RedisSink::Make({"test", {{"tls", "true"}, {"ca_pem", "-----BEGIN nonsense"}}, 0, 0}, &sink);
  EXPECT_EQ(status.error().error_class, ErrorClass::kConfig);
}

}  // namespace
}  // namespace outbox::sink
