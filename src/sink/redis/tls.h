// TLS for Redis [-], by OpenSSL itself: hiredis 0.14 (Debian 12) has none, and later ones check no name.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "sink/named_files.h"
#include "sink/sink.h"

namespace outbox::sink {

// One connection's. The handshake goes on with the first writes and reads.
class TlsSession {
 public:
  enum class Result {
    kMoved,
    kWaitsForRead,
    kWaitsForRoom,
    kClosed,  // by the server
    kFailed,
  };

  ~TlsSession() { SSL_free(ssl_); }
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // kMoved: `*count` of them, of none only when the handshake is done.
  Result Write(std::string_view bytes, size_t* count);
  // kMoved: `*count` bytes, as many as have come. No byte that was received stays in the session where `size` is
  // kLargestRecord or more: a socket without anything to read means that there is nothing.
  static constexpr size_t kLargestRecord = SSL3_RT_MAX_PLAIN_LENGTH;
  Result Read(char* to, size_t size, size_t* count);
  // Why, after the first kFailed: of class kConfig when a certificate is refused, by either side, else kDestination,
  // without a code where it is the network's. A Read() after a Write() that failed may find what the server had said.
  const Error& failure() const { return failure_; }

 private:
  friend class TlsContext;
  TlsSession(SSL* ssl, const std::string* name) : ssl_(ssl), name_(name) {}
  Result Explain(int returned);

  SSL* const ssl_;
  const std::string* const name_;  // the context's
  Error failure_;
};

// What all connections of a sink share. Certificates and names are verified unless tls_verify is false. Files that the
// options name are read again for the next connection once they have changed.
class TlsContext {
 public:
  explicit TlsContext(const Options& options);
  ~TlsContext() { SSL_CTX_free(context_); }
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Reads the certificates. Errors: class kConfig, and all is as before.
  Status Read();
  // On a connected, non-blocking socket, which the session does not close. The context outlives it.
  Status Start(int socket, std::unique_ptr<TlsSession>* session);

 private:
  const Options options_;
  const std::string name_;
  NamedFiles files_;
  SSL_CTX* context_ = nullptr;
};

// What somebody may do about an error of code TLS, as its message tells it; "": nothing is known.
const char* TlsHint(const std::string& message);

// `*tls` stays empty when the options ask for none. Errors: class kConfig.
Status MakeTls(const Options& options, std::shared_ptr<TlsContext>* tls);

}  // namespace outbox::sink
