-- outbox: transactional outbox inside PostgreSQL. This file is built from schema/*.sql; edit those.
-- Every object is schema-qualified, nothing is replaced, PUBLIC gets nothing, every object has a COMMENT.
\echo Use "CREATE EXTENSION outbox" to load this file. \quit
