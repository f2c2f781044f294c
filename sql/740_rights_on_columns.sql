-- A right on columns is a right: doctor() tells of what no grant_...() gives, with a REVOKE that takes it; INSERT into columns of
-- outbox.event is one to emit, also where topics are limited, and revoke_emit() takes it.
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_columns, regress_columns_limited, regress_columns_oncall;
CREATE ROLE regress_columns;
CREATE ROLE regress_columns_limited;
CREATE ROLE regress_columns_oncall;
RESET client_min_messages;
SET outbox.lone_emit = allow;
CREATE FUNCTION told_of_columns() RETURNS TABLE (status text, detail text, hint text) LANGUAGE sql
  BEGIN ATOMIC SELECT d.status, d.detail, d.hint FROM outbox.doctor() d WHERE d."check" = 'rights' AND d.detail LIKE '%regress_columns%' ORDER BY 2; END;
CREATE FUNCTION columns_left() RETURNS bigint LANGUAGE sql
  AS $$ SELECT count(*) FROM outbox_internal.relation_rights x WHERE x.grantee = 'regress_columns'::regrole $$;
-- What grant_operate() gives, by its hand or by another; and columns of what anybody may be let read.
SELECT outbox.grant_operate('regress_columns_oncall');
GRANT SELECT (id, state, topic) ON outbox_internal.parked TO regress_columns;
GRANT SELECT (name) ON outbox.route TO regress_columns;
SELECT * FROM told_of_columns();
-- What nothing gives.
GRANT SELECT (payload, aggregate_id), UPDATE (state) ON outbox_internal.parked TO regress_columns;
GRANT SELECT (payload) ON outbox_internal.log TO regress_columns;
GRANT SELECT, SELECT (headers) ON outbox_internal.foreign_event TO regress_columns;
GRANT REFERENCES (id) ON outbox.route TO regress_columns;
GRANT SELECT (payload) ON outbox_internal.whole_log TO regress_columns;
\x on
SELECT * FROM told_of_columns();
\x off
SELECT string_agg(hint, ' ') AS statements FROM told_of_columns() \gset
:statements
SELECT * FROM told_of_columns();
SELECT columns_left();
REVOKE ALL ON outbox_internal.parked, outbox.route FROM regress_columns;
-- To everybody, also of what operators may read.
BEGIN;
GRANT SELECT (state) ON outbox_internal.parked TO PUBLIC;
SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'rights' AND detail LIKE 'PUBLIC%';
ROLLBACK;
-- To emit.
GRANT USAGE ON SCHEMA outbox TO regress_columns;
GRANT INSERT (aggregate_type, aggregate_id, event_type, payload) ON outbox.event TO regress_columns;
SELECT * FROM told_of_columns();
SELECT outbox.grant_emit('regress_columns_limited', topics => '{shop.*}');
SET ROLE regress_columns;
INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', '1', 'created', '{}');
RESET ROLE;
-- It is limited, and taken back, like any other.
SELECT outbox.grant_emit('regress_columns', topics => '{shop.*}');
SELECT * FROM told_of_columns();
SET ROLE regress_columns;
INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', '1', 'created', '{}');
RESET ROLE;
SELECT outbox.revoke_emit('regress_columns');
SELECT columns_left();
GRANT USAGE ON SCHEMA outbox TO regress_columns;
GRANT INSERT (aggregate_type, event_type) ON outbox.event TO regress_columns;
SELECT outbox.revoke_emit('regress_columns');
SELECT columns_left();
SELECT * FROM told_of_columns();
SELECT outbox.revoke_emit('regress_columns_limited'), outbox.revoke_operate('regress_columns_oncall');
DROP FUNCTION told_of_columns, columns_left;
DROP ROLE regress_columns, regress_columns_limited, regress_columns_oncall;
