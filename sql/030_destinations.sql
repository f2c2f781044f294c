-- matrix: G1 G4
-- Foreign-data wrappers: options are checked when they are written, by lists of our own.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
SELECT fdwname, fdwhandler = 0 AS no_handler, fdwvalidator::regproc AS validator, fdwacl
FROM pg_foreign_data_wrapper WHERE fdwname LIKE 'outbox%' ORDER BY 1;

-- an unknown name: near matches in the hint
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.server" 'localhost:9092');
CREATE SERVER regress_r FOREIGN DATA WRAPPER outbox_redis OPTIONS (hots 'localhost');
-- a secret on a server
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("sasl.password" 'secret');
CREATE SERVER regress_r FOREIGN DATA WRAPPER outbox_redis OPTIONS (password 'secret');
-- set by the extension, runs code, belongs to a consumer
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS (acks '1');
\set VERBOSITY sqlstate
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("plugin.library.paths" 'x');
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("sasl.kerberos.kinit.cmd" 'x');
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("internal.termination.signal" '9');
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("test.mock.num.brokers" '3');
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("group.id" 'x');
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("enable.idempotence" 'false');
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("made.up" 'x');
\set VERBOSITY default
-- what is fixed may be given as it is; names that others have for an option are answered with ours
CREATE SERVER regress_fixed FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" 'a:9092', acks 'all', "enable.idempotence" 'true', retries '2147483647');
DROP SERVER regress_fixed;
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS (brokers 'localhost:9092');
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("ssl.truststore.location" '/x');
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("sasl.jaas.config" 'x');
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("max.request.size" '1');
CREATE SERVER regress_r FOREIGN DATA WRAPPER outbox_redis OPTIONS (url 'redis://localhost');
CREATE SERVER regress_r FOREIGN DATA WRAPPER outbox_redis OPTIONS (sentinels 'a,b');
CREATE SERVER regress_r FOREIGN DATA WRAPPER outbox_redis OPTIONS (ssl 'true');
\set VERBOSITY sqlstate
-- a value out of range, of the wrong kind; the same option twice under two names
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("linger.ms" 'soon');
CREATE SERVER regress_r FOREIGN DATA WRAPPER outbox_redis OPTIONS (port '70000');
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("linger.ms" '1', "queue.buffering.max.ms" '2');
-- options in the wrong place
CREATE SERVER regress_l FOREIGN DATA WRAPPER outbox_log OPTIONS (host 'x');
ALTER FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" 'x');
\set VERBOSITY default
ALTER FOREIGN DATA WRAPPER outbox_redis OPTIONS (host 'x');

-- what is right is kept, letter by letter, and can be altered one by one
CREATE SERVER regress_k FOREIGN DATA WRAPPER outbox_kafka
  OPTIONS ("bootstrap.servers" 'a:9092,b:9092', "linger.ms" '5');
ALTER SERVER regress_k OPTIONS (SET "linger.ms" '7', ADD "client.id" 'me');
ALTER SERVER regress_k OPTIONS (DROP "client.id");
SELECT srvname, srvoptions FROM pg_foreign_server WHERE srvname = 'regress_k';
ALTER SERVER regress_k OPTIONS (SET "linger.ms" 'x');
CREATE SERVER regress_r FOREIGN DATA WRAPPER outbox_redis OPTIONS (host 'localhost', port '6379');
CREATE SERVER regress_l FOREIGN DATA WRAPPER outbox_log;

-- secrets go into user mappings, and what belongs to the server does not
CREATE USER MAPPING FOR PUBLIC SERVER regress_k OPTIONS ("sasl.username" 'u', "sasl.password" 'p');
CREATE USER MAPPING FOR PUBLIC SERVER regress_r OPTIONS (password 'p');
\set VERBOSITY sqlstate
ALTER USER MAPPING FOR PUBLIC SERVER regress_k OPTIONS (ADD "bootstrap.servers" 'c:9092');
ALTER USER MAPPING FOR PUBLIC SERVER regress_r OPTIONS (ADD host 'c');
\set VERBOSITY default

-- no role may use the wrappers without a grant; reading files of the server is for superusers
CREATE ROLE regress_outbox_owner;
SET ROLE regress_outbox_owner;
CREATE SERVER regress_mine FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" 'a:9092');
RESET ROLE;
GRANT USAGE ON FOREIGN DATA WRAPPER outbox_kafka TO regress_outbox_owner;
SET ROLE regress_outbox_owner;
CREATE SERVER regress_mine FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" 'a.example.com:9092');
\set VERBOSITY sqlstate
ALTER SERVER regress_mine OPTIONS (ADD "ssl.ca.location" '/etc/passwd');
\set VERBOSITY default
RESET ROLE;
ALTER SERVER regress_mine OPTIONS (ADD "ssl.ca.location" '/etc/ssl/certs/ca-certificates.crt');

-- test_server(): which one, and for how long at most
SELECT * FROM outbox.test_server(NULL);
SELECT * FROM outbox.test_server('regress_l', timeout => '1 ms');
SELECT * FROM outbox.test_server('regress_l', timeout => '1 day');

SET client_min_messages = warning;
DROP SERVER regress_k, regress_r, regress_l, regress_mine CASCADE;
REVOKE USAGE ON FOREIGN DATA WRAPPER outbox_kafka FROM regress_outbox_owner;
DROP ROLE regress_outbox_owner;
