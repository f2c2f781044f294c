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
  const char* reason = ERR_reason_error_string(ERR_peek_error());  // the first: later ones say where that went up
  ERR_clear_error();
  return Status(ErrorClass::kConfig, "TLS", std::move(what) + (reason == nullptr ? "" : std::string(": ") + reason));
}

std::string ReasonText(unsigned long error) {
  const char* text = ERR_reason_error_string(error);
  return text == nullptr ? "an error" : text;
}

// A server speaks of our certificate in alerts, with TLS 1.3 after a handshake that was well.
bool OfOurCertificate(int reason) {
  switch (reason - SSL_AD_REASON_OFFSET) {
    case SSL3_AD_NO_CERTIFICATE:
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_CERTIFICATE_REQUIRED:
      return true;
    default:
      return false;
  }
}

// Nothing in common with the server. A TLS 1.2 server that was shown no certificate says no more than that either.
bool NothingInCommon(int reason) {
  switch (reason) {
    case SSL_AD_REASON_OFFSET + SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_REASON_OFFSET + SSL_AD_PROTOCOL_VERSION:
    case SSL_AD_REASON_OFFSET + SSL_AD_INSUFFICIENT_SECURITY:
    case SSL_R_WRONG_VERSION_NUMBER:  // its first bytes are none of TLS
      return true;
    default:
      return false;
  }
}

constexpr const char* kRenew =
    "The server's certificate has to be renewed, or a clock is wrong: the server's, or here.";
constexpr const char* kName =
    "The certificate does not have that name: host has to be one that it has, or tls_server_name says which it has.";

// Why a certificate was not trusted, and what to do where it is not the authority.
struct Distrust {
  int result;
  const char* hint;
};
constexpr Distrust kDistrusts[] = {
    {X509_V_ERR_CERT_HAS_EXPIRED, kRenew},
    {X509_V_ERR_CERT_NOT_YET_VALID, kRenew},
    {X509_V_ERR_HOSTNAME_MISMATCH, kName},
    {X509_V_ERR_IP_ADDRESS_MISMATCH, kName},
};

constexpr const char* kIsEncrypted = "\" is encrypted";

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

BioPtr Memory(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// There is none, and nobody to ask: without this OpenSSL does that at the terminal, or in the server's log. `asked` is
// a bool.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writes*/, void* asked) {
  if (asked != nullptr) {
    *static_cast<bool*>(asked) = true;
  }
  return -1;
}

bool TrustPem(SSL_CTX* context, const std::string& pem) {
  BioPtr bio = Memory(pem);
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  int added = 0;
  while (X509Ptr certificate{PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)}) {
    if (X509_STORE_add_cert(store, certificate.get()) != 1) {
      return false;
    }
    ++added;
  }
  ERR_clear_error();  // the end of the text is one
  return added > 0;
}

// Also of what only the passphrase was missing for.
Status Unusable(const std::string& certificate, const std::string& key, const char* key_option, bool asked) {
  Status unusable = TlsError("could not use " + certificate + " with " + key);
  std::string encrypted = std::string("the private key of option \"") + key_option + kIsEncrypted;
  return asked ? Status(ErrorClass::kConfig, "TLS", std::move(encrypted)) : unusable;
}

bool PresentPem(SSL_CTX* context, const std::string& certificates, const std::string& key, bool* asked) {
  BioPtr bio = Memory(certificates);
  X509Ptr leaf{PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, asked)};
  if (leaf == nullptr || SSL_CTX_use_certificate(context, leaf.get()) != 1) {
    return false;
  }
  while (X509* chain = PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, asked)) {
    if (SSL_CTX_add_extra_chain_cert(context, chain) != 1) {  // takes it over when it succeeds
      X509_free(chain);
      return false;
    }
  }
  ERR_clear_error();
  KeyPtr private_key{PEM_read_bio_PrivateKey(Memory(key).get(), nullptr, NoPassphrase, asked)};
  return private_key != nullptr && SSL_CTX_use_PrivateKey(context, private_key.get()) == 1;
}

Status UseCertificates(SSL_CTX* context, const Options& options, const NamedFiles& files) {
  ERR_clear_error();
  std::string ca_pem = TextOption(options, "ca_pem", "");
  std::string ca_file = TextOption(options, "ca_file", "");
  bool trusted = !ca_pem.empty()    ? TrustPem(context, ca_pem)
                 : !ca_file.empty() ? SSL_CTX_load_verify_locations(context, ca_file.c_str(), nullptr) == 1
                                    : SSL_CTX_set_default_verify_paths(context) == 1;
  if (!trusted) {
    return TlsError("could not use " + (!ca_pem.empty()    ? "the certificates of option \"ca_pem\""
                                        : !ca_file.empty() ? files.Describe("ca_file")
                                                           : std::string("the system's certificates")));
  }
  bool asked = false;
  SSL_CTX_set_default_passwd_cb(context, NoPassphrase);
  SSL_CTX_set_default_passwd_cb_userdata(context, &asked);
  std::string certificate = TextOption(options, "certificate_pem", "");
  if (!certificate.empty() && !PresentPem(context, certificate, TextOption(options, "key_pem", ""), &asked)) {
    return Unusable("option \"certificate_pem\"", "option \"key_pem\"", "key_pem", asked);
  }
  std::string file = TextOption(options, "certificate_file", "");
  if (!file.empty() &&
      (SSL_CTX_use_certificate_chain_file(context, file.c_str()) != 1 ||
       SSL_CTX_use_PrivateKey_file(context, TextOption(options, "key_file", "").c_str(), SSL_FILETYPE_PEM) != 1)) {
    return Unusable(files.Describe("certificate_file"), files.Describe("key_file"), "key_file", asked);
  }
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  return {};
}

}  // namespace

TlsContext::TlsContext(const Options& options)
    : options_(options),
      name_(TextOption(options, "tls_server_name", TextOption(options, "host", "localhost"))),
      files_(options, {"ca_file", "certificate_file", "key_file"}) {}

Status TlsContext::Start(int socket, std::unique_ptr<TlsSession>* session) {
  if (files_.Changed()) {
    if (Status status = Read(); !status.ok()) {
      return status;
    }
  }
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
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
      failure_ = {ErrorClass::kConfig, "TLS",
                  "the Redis server's certificate is not one to trust for \"" + *name_ +
                      "\": " + X509_verify_cert_error_string(SSL_get_verify_result(ssl_))};
    } else if (OfOurCertificate(reason)) {
      failure_ = {
          ErrorClass::kConfig, "TLS",
          "the Redis server refuses the certificate that it is shown, or that it is shown none: " + ReasonText(last)};
    } else {
      failure_ = {NothingInCommon(reason) ? ErrorClass::kConfig : ErrorClass::kDestination, "TLS",
                  "TLS: " + ReasonText(last)};
    }
  }
  ERR_clear_error();
  return Result::kFailed;
}

Status TlsContext::Read() {
  NamedFiles files = files_;
  files.Note();
  ContextPtr context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) {
    return TlsError("could not start TLS");
  }
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  bool verify = BoolOption(options_, "tls_verify", true);
  SSL_CTX_set_verify(context.get(), verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (Status status = UseCertificates(context.get(), options_, files); !status.ok()) {
    std::string unusable = files.Unusable();  // says more than OpenSSL does
    return unusable.empty() ? status : Status(ErrorClass::kConfig, "TLS", std::move(unusable));
  }
  SSL_CTX_free(std::exchange(context_, context.release()));  // sessions that were begun keep theirs
  files_ = std::move(files);
  return {};
}

const char* TlsHint(const std::string& message) {
  if (Has(message, "certificate is not one to trust")) {
    for (const Distrust& distrust : kDistrusts) {
      if (Has(message, X509_verify_cert_error_string(distrust.result))) {
        return distrust.hint;
      }
    }
    return "ca_pem (or ca_file) has to have the authority that signed the server's certificate.";
  }
  if (Has(message, "refuses the certificate")) {
    return "certificate_pem and key_pem of the user mapping (or certificate_file and key_file of the server) are what "
           "the "
           "server is shown: a certificate that is valid now, of an authority that the server trusts.";
  }
  if (Has(message, kIsEncrypted)) {
    return "Nobody types its passphrase: it has to be the key itself, which openssl pkey -in encrypted.pem -out "
           "key.pem "
           "writes.";
  }
  if (Has(message, "TLS: ")) {
    return "Does the server speak TLS at that port (its tls-port), in a version of 1.2 or newer? One that wants a "
           "certificate is shown certificate_pem and key_pem.";
  }
  return NamedFiles::Hint(message);
}

Status MakeTls(const Options& options, std::shared_ptr<TlsContext>* tls) {
  if (!BoolOption(options, "tls", false)) {
    return {};
  }
  auto made = std::make_shared<TlsContext>(options);
  Status status = made->Read();
  if (status.ok()) {
    *tls = std::move(made);
  }
  return status;
}

}  // namespace outbox::sink
