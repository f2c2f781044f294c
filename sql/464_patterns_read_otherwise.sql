-- Patterns of a schema are PostgreSQL's: what it reads as something else than an author of JSON Schema means, and passes without a word,
-- is refused when it is registered: \b and \B. docs/emitting.md has the others.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT outbox.event_schema('re', 'e', '{"pattern": "\\bfoo\\b"}');
SELECT outbox.event_schema('re', 'e', '{"properties": {"a": {"pattern": "x\\\\\\B"}}}');
SELECT outbox.event_schema('re', 'e', '{"patternProperties": {"^\\b": true}}');
-- A backslash before a b is none of it; an edge of a word by its name here.
SELECT outbox.event_schema('re', 'e', '{"pattern": "^\\\\b$"}');
SELECT outbox.emit('re', 1, 'e', '"\\b"') IS NOT NULL AS valid;
SELECT outbox.event_schema('re', 'e', '{"pattern": "\\yfoo\\y"}');
SELECT outbox.emit('re', 1, 'e', '"a foo."') IS NOT NULL AS valid;
SELECT outbox.emit('re', 1, 'e', '"food"');
-- One that was registered before goes on.
INSERT INTO outbox_internal.event_schema (aggregate_type, event_type, json_schema) VALUES ('re', 'before', '{"not": {"pattern": "\\bfoo"}}');
SELECT outbox.emit('re', 1, 'before', '"foo"') IS NOT NULL AS valid;
-- What the page says of the others.
SELECT E'\u0008' ~ '^\b$' AS backspace, E'\\' ~ '^\B$' AS backslash, 'a foo.' ~ '\yfoo\y' AS edge, 'food' ~ 'foo\Yd' AS none, E'\u0008' ~ '^\x08$' AS written,
  'Af' ~ '^\x41f$' AS two, E'\u041f' ~ '^\x41f$' AS one, 'Af' ~ '^\u0041f$' AS four, 'foo' ~ '\Afoo\Z' AS ends, E'a\nb' ~ '^a.b$' AS line_end, E'a\nb' ~ '^a[^\n\r]b$' AS no_line_end,
  E'\u0663' COLLATE "C" ~ '\d' AS digit_of_c;
DELETE FROM outbox_internal.event_schema WHERE aggregate_type = 're';
