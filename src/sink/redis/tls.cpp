#include "sink/redis/tls.h"

#include "sink/options.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>

#include <utility>

namespace outbox::sink {

namespace {

template <typename Type, void (*Free)(Type*)>
struct Freer {
  void operator()(Type* object) const { Free(object); }
};
using ContextPtr = std::unique_ptr<SSL_CTX, Freer<SSL_CTX, SSL_CTX_free>>;
using X509Ptr = std::unique_ptr<X509, Freer<X509, X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using BioPtr = std::unique_ptr<BIO, FreeBio>;

// The reason only: OpenSSL's data strings can name files.
Status TlsError(std::string what) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return Status(ErrorClass::kConfig, "TLS", std::move(what) + (reason == nullptr ? "" : std::string(": ") + reason));
}

BioPtr Memory(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

bool TrustPem(SSL_CTX* context, const std::string& pem) {
  BioPtr bio = Memory(pem);
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  int added = 0;
  while (X509Ptr certificate{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
    if (X509_STORE_add_cert(store, certificate.get()) != 1) {
      return false;
    }
    ++added;
  }
  ERR_clear_error();  // the end of the text is one
  return added > 0;
}

bool PresentPem(SSL_CTX* context, const std::string& certificates, const std::string& key) {
  BioPtr bio = Memory(certificates);
  X509Ptr leaf{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)};
  if (leaf == nullptr || SSL_CTX_use_certificate(context, leaf.get()) != 1) {
    return false;
  }
  while (X509* chain = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    if (SSL_CTX_add_extra_chain_cert(context, chain) != 1) {  // takes it over when it succeeds
      X509_free(chain);
      return false;
    }
  }
  ERR_clear_error();
  KeyPtr private_key{PEM_read_bio_PrivateKey(Memory(key).get(), nullptr, nullptr, nullptr)};
  return private_key != nullptr && SSL_CTX_use_PrivateKey(context, private_key.get()) == 1;
}

}  // namespace

Status TlsContext::Start(int socket, std::unique_ptr<TlsSession>* session) const {
  session->reset(new TlsSession(SSL_new(context_), &name_));
  SSL* ssl = (*session)->ssl_;
  if (ssl == nullptr || SSL_set_fd(ssl, socket) != 1) {
    return TlsError("could not start TLS");
  }
  const bool is_address = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name_.c_str()) == 1;
  if (!is_address && (SSL_set1_host(ssl, name_.c_str()) != 1 || SSL_set_tlsext_host_name(ssl, name_.c_str()) != 1)) {
    return TlsError("could not start TLS");
  }
  ERR_clear_error();  // a name that is no address is one
  SSL_set_connect_state(ssl);
  return {};
}

TlsSession::Result TlsSession::Write(std::string_view bytes, size_t* count) {
  *count = 0;
  ERR_clear_error();
  errno = 0;
  if (SSL_is_init_finished(ssl_) == 0) {
    if (const int returned = SSL_do_handshake(ssl_); returned != 1) {
      return Explain(returned);
    }
  }
  if (bytes.empty()) {
    return Result::kMoved;
  }
  const int returned = SSL_write_ex(ssl_, bytes.data(), bytes.size(), count);
  return returned == 1 ? Result::kMoved : Explain(returned);
}

TlsSession::Result TlsSession::Read(char* to, size_t size, size_t* count) {
  *count = 0;
  ERR_clear_error();
  errno = 0;
  const int returned = SSL_read_ex(ssl_, to, size, count);
  return returned == 1 ? Result::kMoved : Explain(returned);
}

TlsSession::Result TlsSession::Explain(int returned) {
  const int system_error = errno;
  const int kind = SSL_get_error(ssl_, returned);
  const unsigned long last = ERR_peek_last_error();
  const int reason = ERR_GET_LIB(last) == ERR_LIB_SSL ? ERR_GET_REASON(last) : 0;
  if (kind == SSL_ERROR_WANT_READ) {
    return Result::kWaitsForRead;
  }
  if (kind == SSL_ERROR_WANT_WRITE) {
    return Result::kWaitsForRoom;
  }
  // A server that is killed says no good-bye; that an answer is whole is seen in the answer.
  if (kind == SSL_ERROR_ZERO_RETURN || (kind == SSL_ERROR_SYSCALL && system_error == 0)) {
    return Result::kClosed;
  }
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING
  if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    ERR_clear_error();
    return Result::kClosed;
  }
#endif
  if (last == 0 && failure_.ok()) {
    failure_ = {ErrorClass::kDestination, {}, strerror(system_error)};  // no matter of TLS, as far as is known
  } else if (last != 0 && failure_.code.empty()) {
    // Also after a write that failed: the alert that says why may have come before the reset.
    const char* text = ERR_reason_error_string(last);
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
      failure_ = {
          ErrorClass::kConfig, "TLS",
          "the Redis server's certificate is not one to trust for \"" + *name_ + "\" (see ca_pem, tls_server_name)"};
    } else {
      failure_ = {ErrorClass::kDestination, "TLS", std::string("TLS: ") + (text == nullptr ? "an error" : text)};
    }
  }
  ERR_clear_error();
  return Result::kFailed;
}

Status MakeTls(const Options& options, std::shared_ptr<TlsContext>* tls) {
  if (!BoolOption(options, "tls", false)) {
    return {};
  }
  ContextPtr context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) {
    return TlsError("could not start TLS");
  }
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  bool verify = BoolOption(options, "tls_verify", true);
  SSL_CTX_set_verify(context.get(), verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  std::string ca_pem = TextOption(options, "ca_pem", "");
  std::string ca_file = TextOption(options, "ca_file", "");
  bool trusted = !ca_pem.empty()    ? TrustPem(context.get(), ca_pem)
                 : !ca_file.empty() ? SSL_CTX_load_verify_locations(context.get(), ca_file.c_str(), nullptr) == 1
                                    : SSL_CTX_set_default_verify_paths(context.get()) == 1;
  if (!trusted) {
    return TlsError("could not use the certificates of ca_pem or ca_file");
  }
  std::string certificate = TextOption(options, "certificate_pem", "");
  if (!certificate.empty() && !PresentPem(context.get(), certificate, TextOption(options, "key_pem", ""))) {
    return TlsError("could not use certificate_pem with key_pem");
  }
  std::string file = TextOption(options, "certificate_file", "");
  if (!file.empty() && (SSL_CTX_use_certificate_chain_file(context.get(), file.c_str()) != 1 ||
                        SSL_CTX_use_PrivateKey_file(context.get(), TextOption(options, "key_file", "").c_str(),
                                                    SSL_FILETYPE_PEM) != 1)) {
    return TlsError("could not use certificate_file with key_file");
  }
  std::string name = TextOption(options, "tls_server_name", TextOption(options, "host", "localhost"));
  *tls = std::make_shared<TlsContext>(context.release(), std::move(name));
  return {};
}

}  // namespace outbox::sink
