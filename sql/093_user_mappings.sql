-- Which user mapping counts, and that whoever writes one that does not is told so: by another role, by one that comes after
-- another, by a change there that changes nothing, by a server that is given away.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
CREATE ROLE regress_app;
CREATE ROLE "regress Owner" SUPERUSER;
CREATE SERVER regress_mapped FOREIGN DATA WRAPPER outbox_redis OPTIONS (host 'localhost');
-- the names of owners differ from machine to machine
\set VERBOSITY terse
-- a role that nobody reads for: at the beginning, and once there is one that counts
CREATE USER MAPPING FOR regress_app SERVER regress_mapped OPTIONS (password 'one');
CREATE USER MAPPING FOR PUBLIC SERVER regress_mapped OPTIONS (password 'two');
ALTER USER MAPPING FOR PUBLIC SERVER regress_mapped OPTIONS (SET password 'three');
ALTER USER MAPPING FOR regress_app SERVER regress_mapped OPTIONS (SET password 'four');
-- PUBLIC comes last
CREATE USER MAPPING FOR CURRENT_USER SERVER regress_mapped OPTIONS (password 'five');
ALTER USER MAPPING FOR PUBLIC SERVER regress_mapped OPTIONS (SET password 'six');
CREATE USER MAPPING IF NOT EXISTS FOR CURRENT_USER SERVER regress_mapped OPTIONS (password 'seven');
DROP USER MAPPING FOR CURRENT_USER SERVER regress_mapped;
DROP USER MAPPING FOR regress_app SERVER regress_mapped;
ALTER SERVER regress_mapped OWNER TO "regress Owner";
CREATE USER MAPPING FOR "regress Owner" SERVER regress_mapped OPTIONS (password 'eight');
ALTER USER MAPPING FOR PUBLIC SERVER regress_mapped OPTIONS (SET password 'nine');
-- doctor() tells of a server that a route uses
SELECT outbox.create_route('regress mapped', 'regress_mapped') > 0 AS made;
SELECT "check", status, detail FROM outbox.doctor() WHERE "check" = 'user mapping';
DROP USER MAPPING FOR PUBLIC SERVER regress_mapped;
SELECT "check", status, detail FROM outbox.doctor() WHERE "check" = 'user mapping';
-- given away: the mapping of the one who had it counts no more
ALTER SERVER regress_mapped OWNER TO regress_app;
ALTER SERVER regress_mapped OWNER TO CURRENT_USER;
SELECT "check", status, detail FROM outbox.doctor() WHERE "check" = 'user mapping';
-- and without one there is nothing to say; nor of a server of another wrapper
DROP USER MAPPING FOR "regress Owner" SERVER regress_mapped;
ALTER SERVER regress_mapped OWNER TO "regress Owner";
SELECT count(*) AS rows FROM outbox.doctor() WHERE "check" = 'user mapping';
CREATE FOREIGN DATA WRAPPER regress_other;
CREATE SERVER regress_other FOREIGN DATA WRAPPER regress_other;
CREATE USER MAPPING FOR regress_app SERVER regress_other;
DROP FOREIGN DATA WRAPPER regress_other CASCADE;
SELECT outbox.drop_route('regress mapped') AS unsent;
DROP SERVER regress_mapped;
DROP ROLE regress_app, "regress Owner";
