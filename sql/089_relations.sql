-- What workers, the keeper and operators' functions ask as relations are views and functions that psql and EXPLAIN can see,
-- and the planner sees through all of them: none is a call, a filter reaches the tables, a day is picked.
SET timezone = 'UTC';
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE SERVER regress_relations FOREIGN DATA WRAPPER outbox_log;
BEGIN;
SELECT outbox.create_route('regress relations', 'regress_relations', '{regress_relations}', lanes => 2) > 0 AS made;
SELECT outbox.pause('regress relations', reason => 'the test needs it still');
COMMIT;
-- (Without those that are about rights, which are called once.)
CREATE VIEW pg_temp.relation AS SELECT p.proname::text AS name FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
  WHERE p.pronamespace = 'outbox_internal'::regnamespace AND l.lanname = 'sql' AND p.provolatile <> 'v'
    AND p.proname !~ '^(pattern_rights|needs_schema|has_of|lacking|revocable|(tables|owners)_without_right|[a-z]+_(routines|grants))$';
CREATE FUNCTION pg_temp.calls(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF EXISTS (SELECT FROM pg_temp.relation r WHERE line ~ ('\m' || r.name || '\M *\(')) THEN
      RETURN NEXT query || ' calls: ' || line;
    END IF;
  END LOOP;
END $$;
CREATE TABLE pg_temp.asked AS SELECT q FROM unnest(ARRAY[
  'SELECT * FROM outbox_internal.lane_position',
  'SELECT * FROM outbox_internal.side_lane_position',
  'SELECT * FROM outbox_internal.position',
  $$SELECT * FROM outbox_internal.newest_progress(1, 0, 0, '-infinity', now())$$,
  'SELECT * FROM outbox_internal.route_names(now()) n JOIN outbox.audit a ON a.route = n.name',
  'SELECT * FROM outbox.replay r LEFT JOIN LATERAL outbox_internal.route_of_name(r.route, r.at) n ON true',
  'SELECT * FROM outbox_internal.whole_log l WHERE NOT outbox_internal.forgotten(l.payload, l.headers, l.content_type)',
  $$SELECT * FROM outbox_internal.parked_keys('{1}', '{1}', '{00000000-0000-4000-8000-000000000001}', '{0}')$$,
  $$SELECT * FROM outbox_internal.placed_rows('{1}', '{1}', '{00000000-0000-4000-8000-000000000001}', '{0}', '{t}', '{1}', '{0}')$$,
  $$SELECT * FROM outbox_internal.dead_letters('r', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'infinity')$$,
  'SELECT * FROM unnest(ARRAY[1, 2]) k(key) CROSS JOIN LATERAL outbox_internal.key_head(1, k.key, true)',
  'SELECT * FROM unnest(ARRAY[1, 2]) k(key) CROSS JOIN LATERAL outbox_internal.key_dead(1, k.key, true)',
  $$SELECT * FROM outbox_internal.key_pause(1, 't', 'k')$$,
  'SELECT * FROM outbox_internal.holding h WHERE h.route_id = 1 AND h.order_key = 2',
  $$SELECT outbox_internal.run_endpoint(m.run) FROM outbox_internal.server_run m$$,
  $$SELECT * FROM outbox_internal.newest_run('a.b.c') m WHERE m.run = 'a.b.c'$$,
  $$SELECT * FROM outbox_internal.server_runs('a.b.c') h CROSS JOIN LATERAL outbox_internal.survived(h.run, 0, 9, now()) s$$,
  $$SELECT * FROM outbox_internal.lane_run(1, 0, 'a.b.c', '-infinity', 'infinity')$$,
  $$SELECT * FROM outbox_internal.judged_periods(1, 0, 'a.b.c', '-infinity', 'infinity', 0) h CROSS JOIN LATERAL
    (SELECT g.at FROM outbox_internal.period_rows(1, 0, h.side, h.run, h.after, h.upto) g WHERE outbox_internal.is_lost(g.reached, g.at, h.bound, h.there_to) ORDER BY g.at DESC LIMIT 1) g$$,
  $$SELECT * FROM outbox_internal.lane_periods(1, 0, '-infinity', 'infinity')$$,
  $$SELECT * FROM outbox_internal.run_periods(1, 0, 0, '-infinity', 'infinity')$$,
  'SELECT * FROM outbox_internal.own_triggers() o WHERE o.relation = ''outbox_internal.log''',
  $$SELECT * FROM outbox_internal.other_periods('a.b.c') h$$]) q;
SELECT calls FROM pg_temp.asked, pg_temp.calls(q) calls;
-- Each that there is was looked at.
SELECT r.name AS not_asked FROM pg_temp.relation r WHERE NOT EXISTS (SELECT FROM pg_temp.asked WHERE q ~ ('\m' || r.name || '\M')) ORDER BY 1;
-- Where a lane is: what it began at, its newest saved progress, and not what another one of that number saved before.
CREATE FUNCTION pg_temp.save(at timestamptz, lane int, window_from pg_snapshot) RETURNS void LANGUAGE sql AS $$
  INSERT INTO outbox_internal.progress (at, route_id, lane, window_from) SELECT at, r.id, lane, window_from FROM outbox.route r WHERE r.name = 'regress relations' $$;
CREATE VIEW pg_temp.position AS SELECT p.lane, p.saved_at IS NOT NULL AS saved, p.window_from::text = l.window_from::text AS as_begun, p.window_from, p.carried
  FROM outbox_internal.lane_position p JOIN outbox.route r ON r.id = p.route_id JOIN outbox_internal.lane l USING (route_id, lane) WHERE r.name = 'regress relations';
SELECT lane, saved, as_begun, carried FROM pg_temp.position ORDER BY lane;
BEGIN;
SET LOCAL outbox.allow_loss = on;
CREATE TABLE outbox_internal.progress_20200101 PARTITION OF outbox_internal.progress FOR VALUES FROM ('2020-01-01') TO ('2020-01-02');
UPDATE outbox_internal.lane l SET since = '2020-01-01 12:00' FROM outbox.route r WHERE r.id = l.route_id AND r.name = 'regress relations';
SELECT pg_temp.save('2020-01-01 12:00', 0, '10:10:');
SELECT lane, saved, as_begun, carried FROM pg_temp.position ORDER BY lane;
SELECT pg_temp.save('2020-01-01 12:01', 0, '20:20:'), pg_temp.save('2020-01-01 12:02', 0, '30:30:');
SELECT lane, saved, window_from, carried FROM pg_temp.position WHERE lane = 0;
SELECT p.side, p.window_from FROM outbox_internal.position p JOIN outbox.route r ON r.id = p.route_id WHERE r.name = 'regress relations' AND p.lane = 0;
UPDATE outbox_internal.lane l SET window_from = '30:30:' FROM outbox.route r WHERE r.id = l.route_id AND r.name = 'regress relations' AND l.lane = 0;
SELECT lane, saved, window_from, carried FROM pg_temp.position WHERE lane = 0;
-- Which lanes may be claimed: not while they are given back, not those of another server.
CREATE VIEW pg_temp.claimable AS SELECT c.lane FROM outbox_internal.claimable_lane c JOIN outbox.route r ON r.id = c.route_id WHERE r.name = 'regress relations';
SELECT array_agg(lane ORDER BY lane) FROM pg_temp.claimable;
UPDATE outbox_internal.lane l SET home = 'another/1' FROM outbox.route r WHERE r.id = l.route_id AND r.name = 'regress relations' AND l.lane = 0;
SELECT array_agg(lane ORDER BY lane) FROM pg_temp.claimable;
UPDATE outbox.route SET lanes_wanted = 3, lanes_begun = now() WHERE name = 'regress relations';
SELECT array_agg(lane ORDER BY lane) FROM pg_temp.claimable;
UPDATE outbox.route SET common_snapshot = '40:40:' WHERE name = 'regress relations';
SELECT array_agg(lane ORDER BY lane) FROM pg_temp.claimable;
ROLLBACK;
-- What a server has had, and lost: by the meetings after that with the run itself, as far as they count.
BEGIN;
SET LOCAL outbox.allow_loss = on;
INSERT INTO outbox_internal.server_run (server, run, survived, met_at, number) VALUES ('s', 'a.1.x', NULL, '2020-01-01', 1), ('s', 'a.2.x', '50-1', '2020-01-02', 2),
  ('s', 'a.3.x', '30-7', '2020-01-03', 3), ('s', 'b.1.x', '10-1', '2020-01-04', 4);
SELECT q.*, s.bound FROM (VALUES ('all', 'a.1.x', 0, 9, '-infinity'::timestamptz), ('the first', 'a.1.x', 0, 2, '-infinity'), ('the second', 'a.1.x', 2, 9, '-infinity'),
  ('since', 'a.1.x', 0, 9, '2020-01-03'), ('since later', 'a.1.x', 0, 9, '2020-01-03 00:01'), ('a later run', 'a.2.x', 0, 9, '-infinity'),
  ('the last', 'a.3.x', 0, 9, '-infinity'), ('never met', 'a.0.x', 0, 9, '-infinity'), ('elsewhere', 'c.1.x', 0, 9, '-infinity')) q (what, run, after, upto, since)
  CROSS JOIN LATERAL outbox_internal.survived(q.run, q.after, q.upto, q.since) s;
SELECT * FROM outbox_internal.newest_run('a.9.x');
SELECT * FROM outbox_internal.newest_run('c.9.x');
-- Which runs have acknowledged what a lane has noted: a period for each time under one, as far as is asked.
CREATE TABLE outbox_internal.progress_20200101 PARTITION OF outbox_internal.progress FOR VALUES FROM ('2020-01-01') TO ('2020-01-02');
CREATE VIEW pg_temp.r AS SELECT id FROM outbox.route WHERE name = 'regress relations';
INSERT INTO outbox_internal.progress (at, route_id, lane, side, window_from, run, acknowledged, survived, run_after)
  SELECT timestamptz '2020-01-01' + g.minute * interval '1 minute', r.id, 0, g.side, '10:10:', g.run, g.acknowledged, g.survived, timestamptz '2020-01-01' + g.after * interval '1 minute'
  FROM pg_temp.r, (VALUES (0, 1, 'a.1.x', '{20,1}'::bigint[], NULL, NULL), (0, 2, 'a.1.x', '{40,1}', NULL, NULL), (0, 3, 'b.1.x', '{60,1}', NULL, 2), (0, 4, NULL, NULL, NULL, 3),
    (0, 5, 'a.1.x', '{60,1}', NULL, 4), (0, 6, 'a.1.x', NULL, '45-1', 4), (2, 2, 'a.2.x', '{31,1}', NULL, NULL)) g (side, minute, run, acknowledged, survived, after);
SELECT p.run, p.after, p.upto FROM pg_temp.r, outbox_internal.run_periods(r.id, 0, 0, '-infinity', 'infinity') p ORDER BY p.upto;
SELECT p.run, p.after, p.upto FROM pg_temp.r, outbox_internal.run_periods(r.id, 0, 0, '2020-01-01 00:01', '2020-01-01 00:05') p ORDER BY p.upto;
SELECT p.side, p.run, p.upto FROM pg_temp.r, outbox_internal.lane_periods(r.id, 0, '-infinity', 'infinity') p ORDER BY 1, 3;
SELECT p.run, p.number FROM pg_temp.r, outbox_internal.lane_run(r.id, 0, 'a.3.x', '-infinity', 'infinity') p;
SELECT p.side, p.run, p.upto, p.bound, p.known, g.acknowledged, g.reached, g.reached > p.bound AS lost, (g.reached > p.known) IS TRUE AS no_news
  FROM pg_temp.r, outbox_internal.judged_periods(r.id, 0, 'a.3.x', '-infinity', 'infinity', 2) p, outbox_internal.period_rows(r.id, 0, p.side, p.run, p.after, p.upto) g ORDER BY p.side, g.at;
SELECT p.side, p.run, p.upto FROM pg_temp.r, outbox_internal.other_periods('a.1.x') p WHERE p.route_id = r.id ORDER BY 1, 3;
-- What holds a key: what waits, and dead letters where the route blocks. What is due, with a key and without.
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, order_key, due_at, aggregate_type, event_type, topic)
  SELECT r.id, 0, timestamptz '2020-01-01' + p.n * interval '1 s', ('00000000-0000-4000-8000-00000000000' || p.n)::uuid, p.state, p.key, CASE WHEN p.state IN ('retrying', 'scheduled') THEN now() END, 't', 'e', 's'
  FROM pg_temp.r, (VALUES (1, 'dead', 7), (2, 'retrying', 7), (3, 'blocked', 7), (4, 'scheduled', 7), (5, 'dead', NULL), (6, 'retrying', NULL), (7, 'scheduled', NULL)) p (n, state, key);
SELECT right(h.id::text, 1) AS n, h.state FROM outbox_internal.holding h JOIN pg_temp.r ON r.id = h.route_id ORDER BY 1;
UPDATE outbox.route SET on_failure = 'block' WHERE name = 'regress relations';
SELECT right(h.id::text, 1) AS n, h.state FROM outbox_internal.holding h JOIN pg_temp.r ON r.id = h.route_id ORDER BY 1;
SELECT 'keyed' AS kind, d.created_at, d.state FROM outbox_internal.due_keyed d JOIN pg_temp.r ON r.id = d.route_id
  UNION ALL SELECT 'shared', d.created_at, d.state FROM outbox_internal.due_shared d JOIN pg_temp.r ON r.id = d.route_id ORDER BY 1, 2;
ROLLBACK;
-- Nobody but the owner has a right on them, and doctor() tells where one has.
CREATE ROLE regress_reader;
GRANT USAGE ON SCHEMA outbox, outbox_internal TO regress_reader;
SET ROLE regress_reader;
SELECT payload FROM outbox_internal.whole_log;
SELECT payload FROM outbox_internal.emitted_again;
SELECT payload FROM outbox_internal.adoptable;
SELECT * FROM outbox_internal.newest_progress(1, 0, 0, '-infinity');
SELECT * FROM outbox_internal.holding;
SELECT * FROM outbox_internal.due_keyed;
SELECT * FROM outbox_internal.other_periods('a.1.x');
RESET ROLE;
BEGIN;
GRANT SELECT ON outbox_internal.whole_log TO regress_reader;
SELECT status, detail FROM outbox.doctor() WHERE "check" = 'rights' AND detail ~ 'whole_log';
ROLLBACK;
REVOKE USAGE ON SCHEMA outbox, outbox_internal FROM regress_reader;
DROP ROLE regress_reader;
SELECT outbox.drop_route('regress relations') IS NOT NULL AS dropped;
DROP SERVER regress_relations;
