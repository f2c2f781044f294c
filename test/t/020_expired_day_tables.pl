# Day tables go when retention is over, every lane has finished with them and no transaction can still write to them;
# not before, and without anybody waiting for it. No relay worker runs here: lanes move by hand.
# matrix: B12
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 0\noutbox.retention = '2d'\n");

# Days of long ago are attached by hand, and positions moved.
sub sql { return $node->safe_psql('postgres', "SET outbox.allow_loss = on; $_[0]") }
sub there { return sql("SELECT to_regclass('outbox_internal.$_[0]') IS NOT NULL") eq 't' }

# Three events of January 2020, committed now; rows are put there before the table becomes one of the log's.
sub old_day
{
	my ($name) = @_;
	sql("CREATE TABLE outbox_internal.$name (LIKE outbox_internal.log);
		CREATE INDEX ON outbox_internal.$name (xid);
		INSERT INTO outbox_internal.$name (created_at, id, xid, aggregate_type, event_type)
		  SELECT timestamptz '2020-01-01 12:00+00' + i * interval '1 s', gen_random_uuid(), pg_current_xact_id(), 't', 'old'
		  FROM generate_series(1, 3) i;
		ALTER TABLE outbox_internal.log ATTACH PARTITION outbox_internal.$name
		  FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00')");
	return;
}
my $finish = 'UPDATE outbox_internal.lane SET window_from = pg_current_snapshot()';

sql("CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');
	SELECT outbox.create_route('a', server => 'nowhere', lanes => 2), outbox.create_route('b', server => 'nowhere'),
	outbox.create_route('c', server => 'nowhere', aggregate_types => '{other}')");
ok(wait_for_value($node, "SELECT count(*) >= 12 FROM pg_inherits WHERE inhparent::regclass::text ~ '^outbox'", 't'),
	'the keeper makes day tables of all kinds ahead of time');

old_day('log_20200101');
upkeep($node);
ok(there('log_20200101'), 'kept while no lane has finished with it');
my $day = q(SELECT rows, state, undelivered, undelivered_capped, held_by, oldest_undelivered AT TIME ZONE 'UTC', goes_at AT TIME ZONE 'UTC'
	FROM outbox.day WHERE day = '2020-01-01' AND log_table = 'outbox_internal.log_20200101' AND bytes > 0);
is(sql($day), '3|held|3|f|route "a" (3 events since 2020-01-01 12:00:01.000000+00), route "b" (3 events since 2020-01-01 12:00:01.000000+00), route "c" (0 events; it has not read all of it)|2020-01-01 12:00:01|2020-01-04 00:00:00', 'outbox.day says by whom, and how much');
my $doctor = q(SELECT status || ': ' || detail FROM outbox.doctor() WHERE "check" = 'log');
like(sql($doctor), qr/^warning: 1 day is kept beyond outbox\.retention, \d+ \w+, because .*; outbox_internal\.log_20200101 by route "a" \(3 events since [^)]*\), route "b" \(3 events since [^)]*\), route "c" \(0 events; it has not read all of it\)\.$/, 'so does doctor()');
is(sql(q(SELECT DISTINCT state || undelivered || coalesce(held_by, '') FROM outbox.day WHERE day > '2020-01-01')), 'open0', 'of days to come there is nothing to say');
sql("$finish WHERE route_id = (SELECT id FROM outbox.route WHERE name = 'a')");
upkeep($node);
ok(there('log_20200101'), 'kept while the lane of another route has not');
like(sql($day), qr/^3\|held\|3\|f\|route "b" \(3 events since [^)]*\), route "c"/, 'which is named');
sql("$finish WHERE route_id = (SELECT id FROM outbox.route WHERE name = 'b')");
upkeep($node);
ok(there('log_20200101'), 'kept while a lane is behind that wants nothing of it');
is(sql($day), '3|held|0|f|route "c" (0 events; it has not read all of it)||2020-01-04 00:00:00', 'which is named, too');
sql($finish);

sql("BEGIN; LOCK TABLE outbox_internal.log_20200101 IN ROW EXCLUSIVE MODE; PREPARE TRANSACTION 'writer'");
upkeep($node);
ok(there('log_20200101'), 'kept while a prepared transaction may have written to it');
like(sql($day), qr/^3\|expired\|0\|f\|prepared transaction "writer" since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00\|\|2020-01-04 00:00:00$/, 'no route holds it any more, but that transaction');
like(sql($doctor), qr/^ok: The log has \d+ \w+ in \d+ day tables, of days to come, too; see outbox\.day\.$/, 'nor does doctor() say so: it has not been long');
Outbox::Faults::put('doctor.locked_for', 1);
like(sql($doctor), qr/^warning: outbox_internal\.log_20200101 is delivered and over, and cannot be dropped: in the way is prepared transaction "writer" since .*\.$/, 'later it does');
Outbox::Faults::disarm('doctor.locked_for');
my ($shown, $kept);
(undef, $shown, $kept) = $node->psql('postgres', 'CALL outbox.drop_expired()');
is($shown, '0|0', 'drop_expired() would not drop it');
like($kept, qr/would keep outbox_internal\.log_20200101 \(\d+ kB, about 3 events\)\n.*DETAIL:  In the way is prepared transaction "writer"/, 'and says why');
(undef, $shown, $kept) = $node->psql('postgres', 'CALL outbox.drop_expired(dry_run => false)');
is($shown, '0|0', 'nor does it');
like($kept, qr/NOTICE:  kept outbox_internal\.log_20200101 /, 'and says so');
ok(there('log_20200101'), 'it is there');
sql(q(ALTER SYSTEM SET outbox.retention = '20000d'; SELECT pg_reload_conf()));
ok(wait_for_value($node, q(SELECT state FROM outbox.day WHERE day = '2020-01-01'), 'kept', 20), 'with a longer retention it is kept for that');
sql(q(ALTER SYSTEM RESET outbox.retention; SELECT pg_reload_conf()));
ok(wait_for_value($node, q(SELECT state FROM outbox.day WHERE day = '2020-01-01'), 'expired', 20), 'and with the shorter one not');
sql("COMMIT PREPARED 'writer'; BEGIN; SELECT count(*) FROM outbox_internal.log; PREPARE TRANSACTION 'reader'");
upkeep($node);
ok(there('log_20200101'), 'kept while a session reads the log');
my ($status) = $node->psql('postgres', "SET statement_timeout = '5s'; SELECT outbox.emit('t', 1, 'new', '{}');
	SELECT count(*) FROM outbox_internal.log");
is($status, 0, 'and neither emitting nor reading waits for the keeper');
sql("INSERT INTO outbox_internal.side_lane (route_id, lane, side, topic_template, since, window_from) VALUES (1, 1, 1, 't', '-infinity', '3:3:');
	INSERT INTO outbox_internal.side_topic (route_id, lane, topic, side, start_from, error_class, error_code, error_message)
	  VALUES (1, 1, 'away', 1, '3:3:', 'topic', 'PAUSED', 'by hand')");
sql("COMMIT PREPARED 'reader'");
upkeep($node);
ok(there('log_20200101'), 'kept while a side lane has not finished with it');
sql('DELETE FROM outbox_internal.side_lane');
upkeep($node);
ok(!there('log_20200101'), 'dropped when all that is over');
is(sql('SELECT count(*) FROM outbox_internal.log'), 1, 'with its events, and no others');

# A transaction that was prepared before the lanes finished, and commits into the old day afterwards.
sql("CREATE TABLE outbox_internal.log_20200101 (LIKE outbox_internal.log);
	CREATE INDEX ON outbox_internal.log_20200101 (xid);
	BEGIN;
	INSERT INTO outbox_internal.log_20200101 (created_at, id, xid, aggregate_type, event_type)
	  VALUES ('2020-01-01 12:00+00', gen_random_uuid(), pg_current_xact_id(), 't', 'late');
	PREPARE TRANSACTION 'late'");
sql($finish);
sql("COMMIT PREPARED 'late'; ALTER TABLE outbox_internal.log ATTACH PARTITION outbox_internal.log_20200101
	FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00')");
upkeep($node);
ok(there('log_20200101'), 'kept for an event that no lane has seen, though its transaction id is old');
is(sql("SELECT string_agg(event_type, ',') FROM outbox.peek('b')"), 'late', 'which is what a lane reads next');
sql($finish);
upkeep($node);
ok(!there('log_20200101'), 'dropped when they have');

# A user's event trigger cannot refuse, a user's view can; the next table is dropped all the same.
sql("CREATE FUNCTION no_ddl() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END'");
old_day('log_20200101');
sql("$finish; CREATE EVENT TRIGGER no_drop ON sql_drop EXECUTE FUNCTION no_ddl()");
upkeep($node);
ok(!there('log_20200101'), 'an event trigger does not keep it');
sql('DROP EVENT TRIGGER no_drop');
old_day('log_20200101');
sql("CREATE VIEW somebodys AS SELECT id FROM outbox_internal.log_20200101;
	CREATE TABLE outbox_internal.log_20200103 (LIKE outbox_internal.log);
	CREATE INDEX ON outbox_internal.log_20200103 (xid);
	ALTER TABLE outbox_internal.log ATTACH PARTITION outbox_internal.log_20200103
	  FOR VALUES FROM ('2020-01-03 00:00+00') TO ('2020-01-04 00:00+00');
	$finish");
upkeep($node);
ok(there('log_20200101'), 'a view keeps the table it depends on');
like(sql($day), qr/\|expired\|0\|f\|view (?:public\.)?somebodys\|/, 'and outbox.day names it');
like(sql($doctor), qr/^warning: .* in the way is view (?:public\.)?somebodys\.$/, 'so does doctor()');
ok(!there('log_20200103'), 'and no other');
sql('DROP VIEW somebodys');
upkeep($node);
ok(!there('log_20200101'), 'no longer than the view is there');

# Progress is kept as long as the log; the last position of a lane lives on in outbox_internal.lane.
sql("CREATE TABLE outbox_internal.log_20200101 (LIKE outbox_internal.log);
	CREATE INDEX ON outbox_internal.log_20200101 (xid);
	ALTER TABLE outbox_internal.log ATTACH PARTITION outbox_internal.log_20200101
	  FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00');
	CREATE VIEW somebodys AS SELECT id FROM outbox_internal.log_20200101");
sql("CREATE TABLE outbox_internal.progress_20200101 (LIKE outbox_internal.progress);
	CREATE INDEX ON outbox_internal.progress_20200101 (route_id, lane, side, at);
	INSERT INTO outbox_internal.progress_20200101 SELECT timestamptz '2020-01-01 12:00+00', route_id, lane, '5:5:', '7:7:', '2020-01-01 00:00+00', 0
	  FROM outbox_internal.lane WHERE route_id = 1 AND lane = 1;
	INSERT INTO outbox_internal.progress_20200101 SELECT timestamptz '2020-01-01 13:00+00', route_id, lane, '6:6:', '8:9:8', '2020-01-02 00:00+00', 0
	  FROM outbox_internal.lane WHERE route_id = 1 AND lane = 1;
	INSERT INTO outbox_internal.side_lane (route_id, lane, side, topic_template, since, window_from) VALUES (1, 1, 1, 't', '-infinity', '3:3:');
	INSERT INTO outbox_internal.progress_20200101 VALUES ('2020-01-01 14:00+00', 1, 1, '7:7:', NULL, NULL, 1);
	ALTER TABLE outbox_internal.progress ATTACH PARTITION outbox_internal.progress_20200101
	  FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00')");
upkeep($node);
ok(there('progress_20200101'), 'a day of progress is kept while the log has that day');
sql('DROP VIEW somebodys; DROP TABLE outbox_internal.log_20200101');
upkeep($node);
ok(!there('progress_20200101'), 'and dropped after it');
is(sql('SELECT window_from, window_to, done_to AT TIME ZONE \'UTC\' FROM outbox_internal.lane WHERE route_id = 1 AND lane = 1'),
	'6:6:|8:9:8|2020-01-02 00:00:00', 'and the newest position in it carried forward');
is(sql('SELECT window_from, window_to FROM outbox_internal.side_lane'), '7:7:|', 'also that of a side lane, which is another');
sql('DELETE FROM outbox_internal.side_lane');

# Ticks: needed until every lane is past them, or nothing lies between.
sql("UPDATE outbox_internal.lane SET window_to = NULL, done_to = NULL;
	CREATE TABLE outbox_internal.tick_20200101 (LIKE outbox_internal.tick);
	INSERT INTO outbox_internal.tick_20200101 VALUES ('2020-01-01 12:00+00', pg_current_snapshot());
	ALTER TABLE outbox_internal.tick ATTACH PARTITION outbox_internal.tick_20200101
	  FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00')");
upkeep($node);
ok(there('tick_20200101'), 'an old day of ticks is kept for a lane that is behind them, with events between');
sql($finish);
upkeep($node);
ok(!there('tick_20200101'), 'and dropped when no lane is');

# Without routes retention alone decides.
sql("SELECT outbox.drop_route('a'), outbox.drop_route('b'), outbox.drop_route('c')");
old_day('log_20200101');
upkeep($node);
ok(!there('log_20200101'), 'without a route no lane is waited for');
is(sql('SELECT count(*) FROM outbox_internal.log'), 1, 'what is younger than outbox.retention stays');

no_server_crashed($node);
done_testing();
