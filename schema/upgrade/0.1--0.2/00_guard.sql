-- outbox 0.1 to 0.2. This file is built from schema/upgrade/0.1--0.2/*.sql; edit those.
\echo Use "ALTER EXTENSION outbox UPDATE TO '0.2'" to load this file. \quit
