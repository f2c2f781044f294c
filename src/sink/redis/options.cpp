// Options of outbox_redis. All are ours: hiredis has no properties.
#include "sink/redis/options.h"

#include "sink/option_rules.h"

namespace outbox::sink::redis {

std::span<const OptionRule> OptionRules() {
  using G = OptionGroup;
  using V = ValueType;
  using namespace rules;  // the tables' own words
  static constexpr OptionRule kRules[] = {
      Typed(G::kOwner, V::kHost, "host", "name or address of the server (default localhost)"),
      Integer(G::kOwner, "port", 1, 65535, "TCP port (default 6379)"),
      Integer(G::kOwner, "db", 0, 1000000, "database number (default 0)"),
      Alias("database", "db"),
      Alias("dbname", "db"),
      Integer(G::kOwner, "connect_timeout", 100, 60000, "milliseconds to connect and authenticate (default 5000)"),
      Integer(G::kOwner, "timeout", 100, 300000, "milliseconds that the server may stay silent (default 5000)"),
      Integer(G::kOwner, "maxlen", 1, 1000000000000,
              "trims streams to about this many entries, read or not (default: never)"),
      Enum(G::kOwner, "on_lost_writes", "resend|warn",
           "what to do when the server has lost what it had acknowledged (default resend)"),
      Bool(G::kOwner, "tls", "encrypts the connection (default false)"),
      Typed(G::kOwner, V::kHost, "tls_server_name", "name to expect in the server's certificate (default: host)"),
      Typed(G::kOwner, V::kPem, "ca_pem", "certificates of the authorities to trust (default: the system's)"),
      Text(G::kSecret, "username", "user to authenticate as (default: the server's default user)"),
      Alias("user", "username"),
      Text(G::kSecret, "password", "password to authenticate with"),
      Typed(G::kSecret, V::kPem, "certificate_pem", "certificate to present to the server"),
      Typed(G::kSecret, V::kPem, "key_pem", "private key of certificate_pem, not encrypted"),
      Bool(G::kSuperuser, "tls_verify", "accepts any certificate where it is false, which lets others listen in"),
      Typed(G::kSuperuser, V::kSocket, "unix_socket",
            "opens a socket file on the database's machine, instead of host and port"),
      Instead("Option \"ca_pem\" carries the certificates themselves.",
              Typed(G::kSuperuser, V::kPath, "ca_file", "reads a file of the server, with the authorities to trust")),
      Instead("Option \"certificate_pem\" of the user mapping carries the certificate itself.",
              Typed(G::kSuperuser, V::kPath, "certificate_file",
                    "reads a file of the server, with the certificate to present")),
      Instead("Option \"key_pem\" of the user mapping carries the key itself.",
              Typed(G::kSuperuser, V::kPath, "key_file",
                    "reads a file of the server, with the private key, not encrypted")),
  };
  return kRules;
}

}  // namespace outbox::sink::redis
