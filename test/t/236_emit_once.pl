# A dedupe_key emits once: with prepared transactions, in tables of two days at once, where there is no table of the day, from
# sixteen sessions at once of which some roll back, after a dump and restore, and until its day is dropped.
# matrix: B19
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 0\nmax_prepared_transactions = 5\nautovacuum = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub emit { my ($key, $payload) = @_; return "SELECT outbox.emit('order', 1, 'e', '\"" . ($payload // 'x') . "\"', dedupe_key => '$key')" }
sub events { return sql("SELECT count(*) FROM outbox_internal.whole_log WHERE event_type = 'e'" . ($_[0] ? " AND convert_from(payload, 'UTF8') = '\"$_[0]\"'" : '')) }
sub waits { return wait_for_value($node, q(SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted), $_[0]) }

sql('SELECT outbox.emit(\'warm\', 1, \'up\', \'1\')');
my $today = sql("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')");
my $tables = q(SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox_internal.emit_key'::regclass);
ok(wait_for_value($node, "SELECT ($tables) >= 2", 't'), 'the keeper makes the tables of keys ahead');

# --- prepared ---
sql('BEGIN; ' . emit('p', 'prepared') . q(; PREPARE TRANSACTION 'p'));
my $two = $node->background_psql('postgres', on_error_stop => 0);
$two->query_until(qr/begun/, "\\echo begun\n" . emit('p', 'second') . ";\n\\echo ended\n");
ok(waits(1), 'who comes after a prepared transaction waits for it');
like(($node->psql('postgres', "SET lock_timeout = '1s'; " . emit('p', 'third')))[2], qr/lock timeout/, 'no longer than lock_timeout');
# (19 says what it waited for as well.) Of many events: which one it is about, also in a later batch, and behind those that are done.
foreach my $number (2, 1200)
{
	my $keys = "SELECT array_agg(CASE WHEN n = $number THEN 'p' WHEN n % 2 = 0 THEN 'p' || n END ORDER BY n) FROM generate_series(1, 1201) n";
	like(($node->psql('postgres', "SET lock_timeout = '100ms'; SELECT outbox.emit_many('order', NULL, 'e', array_fill('1'::jsonb, '{1201}'), dedupe_keys => ($keys))"))[2],
		qr/lock timeout\n(?:CONTEXT:  waiting for .*\n)?.*outbox.emit_many\(\), element $number$/m, "of emit_many() it is told which one: $number");
	my $objects = "SELECT jsonb_agg(jsonb_build_object('aggregate_type', 'order', 'event_type', 'e', 'payload', 1, 'dedupe_key', k.key) ORDER BY n) FROM unnest(($keys)) WITH ORDINALITY k (key, n)";
	like(($node->psql('postgres', "SET lock_timeout = '100ms'; SELECT outbox.emit_many(($objects))"))[2], qr/outbox.emit_many\(\), element $number$/m, "in the form of objects as well: $number");
}
my $first = sql(q(COMMIT PREPARED 'p'; SELECT id FROM outbox_internal.whole_log WHERE convert_from(payload, 'UTF8') = '"prepared"'));
like($two->query_until(qr/ended/, ''), qr/\Q$first\E/, 'and gets its id when it is committed');
sql('BEGIN; ' . emit('q', 'prepared') . q(; PREPARE TRANSACTION 'q'));
$two->query_until(qr/begun/, "\\echo begun\n" . emit('q', 'second') . ";\n\\echo ended\n");
ok(waits(1), 'again');
sql(q(ROLLBACK PREPARED 'q'));
$two->query_until(qr/ended/, '');
is(events('second'), 1, 'and emits its own when it is rolled back');

# --- a cancel, and the end of the session ---
sql('BEGIN; ' . emit('c', 'prepared') . q(; PREPARE TRANSACTION 'c'));
$two->query_until(qr/begun/, "\\echo begun\n" . emit('c', 'second') . ";\n\\echo ended\n");
ok(waits(1), 'waits');
sql(q(SELECT pg_cancel_backend(pid) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted));
$two->query_until(qr/ended/, '');
is(sql(q(SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 'outbox_internal.emit_key'::regclass)), 0, 'a cancel ends it, and nothing stays locked');
sql(q(ROLLBACK PREPARED 'c'));

# --- two tables at once, as on both sides of midnight; and no table of the day ---
my $one = $node->background_psql('postgres');
sql("SET outbox.allow_loss = on; DROP TABLE outbox_internal.emit_key_$today");
$one->query_safe('BEGIN');
my $of_one = $one->query_safe(emit('m', 'one'));
my $spare = sql(q(SELECT pg_relation_size('outbox_internal.emit_key_spare') > 0));
is($spare, 't', 'where the day has no table a key goes to the spare one');
sql('SELECT pg_reload_conf()');
ok(wait_for_value($node, "SELECT to_regclass('outbox_internal.emit_key_$today') IS NOT NULL", 't'), 'the keeper makes the table, and waits for nobody');
$two->query_until(qr/begun/, "\\echo begun\n" . emit('m', 'two') . ";\n\\echo ended\n");
ok(waits(1), 'a key in another table, not committed yet, is waited for');
$one->query_safe('COMMIT');
like($two->query_until(qr/ended/, ''), qr/\Q$of_one\E/, 'and found when it is');
is(events('two'), 0, 'nothing is emitted twice');
is(sql(emit('m', 'three')), $of_one, 'nor later');
my $of_n = sql(emit('n', 'four'));
is(sql(emit('n', 'five')), $of_n, 'keys of the new table count');
$one->query_safe('BEGIN');
$one->query_safe(emit('o', 'one more'));
$two->query_until(qr/begun/, "\\echo begun\n" . emit('o', 'two more') . ";\n\\echo ended\n");
ok(waits(1), 'again');
$one->query_safe('ROLLBACK');
$two->query_until(qr/ended/, '');
is(events('two more') . events('one more'), '10', 'rolled back: the other emits');
$one->quit;
$two->quit;

# --- sixteen at once ---
my $script = PostgreSQL::Test::Utils::tempdir() . '/race.sql';
append_to_file($script, <<'PGBENCH');
\set key random(1, 150)
\set last random(0, 3)
BEGIN;
SELECT outbox.emit('race', 1, 'r', to_jsonb(:client_id), dedupe_key => 'race-' || :key);
\if :last
COMMIT;
\else
ROLLBACK;
\endif
PGBENCH
$node->command_ok([ 'pgbench', '-n', '-c', 16, '-t', 60, '-f', $script, 'postgres' ], 'sixteen sessions emit under the same keys, a quarter rolls back');
is(sql(q(SELECT count(*) - count(DISTINCT k.digest) FROM (TABLE outbox_internal.emit_key UNION ALL TABLE outbox_internal.emit_key_spare) k)), 0, 'each key is there once');
is(sql(q(SELECT (SELECT count(*) FROM outbox_internal.whole_log WHERE event_type = 'r')
	= (SELECT count(*) FROM (TABLE outbox_internal.emit_key UNION ALL TABLE outbox_internal.emit_key_spare) k JOIN outbox_internal.whole_log l USING (id) WHERE l.event_type = 'r'))),
	't', 'and has one event');
cmp_ok(sql(q(SELECT value FROM outbox.metrics() WHERE name = 'outbox_events_deduplicated_total')), '>', 200, 'outbox.metrics() has how many wrote nothing');

# --- dump and restore ---
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'a dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-q', '-d', $node->connstr('restored'), '-f', $dump ], 'is restored');
is($node->safe_psql('restored', emit('m', 'restored')), $of_one, 'keys that the original had taken are taken in it');
is($node->safe_psql('restored', emit('n', 'restored')), $of_n, 'in the table of the day and in the spare one');

# --- retention, by whole days ---
sql(q(CREATE TABLE outbox_internal.emit_key_20200101 (LIKE outbox_internal.emit_key); CREATE INDEX ON outbox_internal.emit_key_20200101 (digest);
	WITH gone AS (DELETE FROM outbox_internal.emit_key WHERE id = (SELECT id FROM outbox_internal.whole_log WHERE convert_from(payload, 'UTF8') = '"four"') RETURNING *)
	  INSERT INTO outbox_internal.emit_key_20200101 SELECT '2020-01-01 12:00+00', digest, id FROM gone));
my $four = sql(q(SELECT id FROM outbox_internal.emit_key_20200101));
sql(q(SET outbox.allow_loss = on; BEGIN; ALTER TABLE outbox_internal.emit_key ATTACH PARTITION outbox_internal.emit_key_20200101 FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00'); ) . emit('n', 'six') . q( \gset
	SELECT CASE WHEN :'emit' = ') . $four . q(' THEN 1 ELSE 1 / 0 END; COMMIT));
pass('a key of another day counts as long as its table is there');
sql('SELECT pg_reload_conf()');
ok(wait_for_value($node, q(SELECT to_regclass('outbox_internal.emit_key_20200101') IS NULL), 't'), 'the keeper drops days that are over');
isnt(sql(emit('n', 'seven')), $four, 'then the key is free');
is(sql(q(SELECT count(*) > 0 FROM outbox_internal.emit_key_spare)), 't', 'the spare table is not emptied while a key of it counts');
sql(q(UPDATE outbox_internal.emit_key_spare SET at = at - interval '30 days'; SELECT pg_reload_conf()));
ok(wait_for_value($node, q(SELECT pg_relation_size('outbox_internal.emit_key_spare')), 0), 'and is when all have expired');
is(sql('SHOW outbox.dedupe_retention'), '7d', 'seven days by default');

# --- what a repeat relies on is on disk when it has committed: the writer of the WAL would come seconds later ---
$node->append_conf('postgresql.conf', 'wal_writer_delay = 10s');
$node->restart;
# (Once before: what the first use of a page adds to the WAL would wake it.)
my ($once, $again) = map { emit('async', $_) . ' AS id' } 'async', 'again';
is(sql(join(";\n", emit('warm'), emit('warm'), 'SELECT FROM pg_switch_wal()', 'SET synchronous_commit = off', "$once \\gset\nSELECT pg_current_wal_insert_lsn() AS lsn \\gset\n"
		. "SELECT :'lsn' > pg_current_wal_flush_lsn()", 'SET synchronous_commit = on', "SELECT :'id' = id FROM ($again) e", "SELECT :'lsn' <= pg_current_wal_flush_lsn()")) =~ s/^.{36}$//mgr =~ s/\n+//gr,
	'ttt', 'a commit that waited for no disk, repeated by one that does: then it is there');
$node->stop('immediate');
$node->start;
is(events('async'), 1, 'and has outlived a stop right behind that');

# --- without preload ---
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
is(sql(emit('without', 'a')), sql(emit('without', 'b')), 'without preload, too');
no_server_crashed($node);
done_testing();
