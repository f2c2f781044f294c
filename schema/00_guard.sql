-- outbox: transactional outbox inside PostgreSQL. This file is built from schema/*.sql; edit those.
-- Every object is schema-qualified, nothing is replaced, PUBLIC gets nothing, every object has a COMMENT.
\echo Use "CREATE EXTENSION outbox" to load this file. \quit

-- Some statements below sort or join the catalog: in a session with very little memory that takes temporary files, which it may not
-- have. Given back in 99_finish.sql: SET LOCAL is until the end of the transaction, which may go on behind this script.
SELECT pg_catalog.set_config('outbox_script.work_mem', pg_catalog.current_setting('work_mem'), true);
SET LOCAL work_mem = '16MB';
