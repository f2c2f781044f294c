// TLS for Redis [-], where hiredis brings it (hiredis_ssl, from 1.0 on; OUTBOX_HAVE_HIREDIS_SSL is set by the build).
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "sink/sink.h"

struct redisContext;

namespace outbox::sink {

// What all connections of a sink share. Peer certificates and names are verified unless tls_verify is false: hiredis
// itself does not check the name.
class TlsContext {
 public:
  virtual ~TlsContext() = default;
  // Starts TLS on a connected context; the handshake goes on with the first reads and writes.
  virtual Status Attach(redisContext* context) = 0;
  // After a write to the context attached last that did not take all: it can go on only when something was read (the
  // handshake). Then waiting until the socket takes bytes would be a busy loop.
  virtual bool WriteWaitsForRead() = 0;
  // After an I/O error of such a context: an error of class kConfig when it was about certificates, otherwise none.
  virtual Error Explain() = 0;
};

// `*tls` stays empty when the options ask for none. Errors: class kConfig.
Status MakeTls(const Options& options, std::shared_ptr<TlsContext>* tls);

}  // namespace outbox::sink
