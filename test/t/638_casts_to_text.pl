# Casts to text that are implicit, as those "of 8.2" that migrated applications have: numbers, oids and times beside a literal are
# ambiguous for ||, in SQL of ours as well, unless it says text. Made before the extension and after it: every view, every function,
# what guards and workers ask, and a copy that is adopted.
# matrix: G2
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(extension => 0, conf => "log_line_prefix = '%m [%p] %e %b %q%a '\noutbox.lone_emit = allow\nmax_worker_processes = 24\n");
my $casts = join '', map { "CREATE CAST ($_ AS text) WITH INOUT AS IMPLICIT;" } qw(int2 int4 int8 oid regclass regprocedure regrole regnamespace regtype
	uuid timestamptz timestamp date interval numeric float8 json jsonb bytea xid xid8 pg_snapshot pg_lsn);
my $extension = 'CREATE EXTENSION outbox;';

# Each statement alone; what it says of errors.
sub errors
{
	my ($database, $sql) = @_;
	my ($code, $out, $err) = $node->psql($database, "\\set VERBOSITY verbose\n$sql", on_error_stop => 0);
	return join "\n", $err =~ /ERROR: .*/g;
}
sub value { my ($database, $sql) = @_; return $node->safe_psql($database, "SELECT ($sql)") }
sub doctor_fails { my ($database) = @_; return $node->safe_psql($database, q{SELECT "check", detail FROM outbox.doctor() WHERE detail ~ 'check failed'}) }

my $statements = q{
SELECT outbox.emit('o', '1', 'x', '{}'), outbox.emit('o', 1::bigint, 'x', '{}'), outbox.emit('o', gen_random_uuid(), 'x', '{}');
SELECT outbox.emit_text('o', '1', 'x', 'y'), outbox.emit_bytes('o', '1', 'x', 'y'), outbox.emit_tombstone('o', '1', 'x');
SELECT outbox.emit_many('o', '{1,2}', 'x', '{"{}","{}"}'), outbox.emit_many('[{"aggregate_type": "o", "aggregate_id": "1", "event_type": "x", "payload": {}}]'), outbox.emit_many_json('[]'::varchar);
INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) VALUES ('o', '1', 'x', '{}');
SELECT outbox.wait_until_idle('60 s'), outbox.wait_for(:'id', '60 s');
SELECT * FROM outbox.status(:'id');
SELECT * FROM outbox.events_of('o', '1');
SELECT * FROM outbox.peek('main');
SELECT outbox.event_schema('o', 'x', '{"type": "object"}'), outbox.drop_event_schema('o', 'x');
SELECT outbox.alter_route('main', topic => 'there');
SELECT outbox.pause('main', reason => 'why'), outbox.resume('main');
SELECT outbox.pause('main', aggregate_type => 'o', aggregate_id => '1', reason => 'why'), outbox.resume('main', aggregate_type => 'o', aggregate_id => '1');
SELECT * FROM outbox.test_server('nowhere');
SELECT outbox.grant_emit('some_role', '{mine.*}'), outbox.grant_operate('some_role'), outbox.grant_receive('some_role', '{mine}');
SELECT outbox.revoke_emit('some_role'), outbox.revoke_operate('some_role'), outbox.revoke_receive('some_role');
SELECT outbox.receive('me', :'id'), outbox.receive('me', 'there', '1', (extract(epoch FROM now()) * 1000000)::bigint), outbox.receive_many('me', ARRAY[:'id']::uuid[]), outbox.receive_next('me', 'there', 7);
SELECT outbox.received_to('me', 'there'), outbox.seek_stream('me', 'there', 9), outbox.forget_received('me', :'id'), outbox.reprocess('me', now() - interval '1 hour');
SELECT outbox.forget_consumer('me');
SELECT outbox.metrics_reset(), outbox.look_again(), outbox.version(), outbox.doctor_ok();
SELECT * FROM outbox.doctor();
SELECT * FROM outbox.metrics();
SELECT outbox.metrics_text();
CALL outbox.replay(since => now() - interval '1 hour', route => 'main', dry_run => false, per_second => 0.001);
SELECT outbox.cancel_replay(1);
CALL outbox.seek('main', now());
CALL outbox.seek('main', now(), dry_run => false);
CALL outbox.drop_expired(keep => '1 day');
CALL outbox.drop_expired(keep => '1 day', dry_run => false);
CALL outbox.forget('o', '2');
CALL outbox.forget('o', '2', dry_run => false, reason => 'why');
SELECT outbox.parked_content(:'d1'), outbox.retry(:'d1', reason => 'why');
SELECT outbox.skip(:'d2', 'why');
SELECT outbox.discard(:'d3', 'why');
CALL outbox.redrive('main', error => 'too', dry_run => false, reason => 'why');
CALL outbox.redrive('main', until => now());
CALL outbox.discard_dead_letters('main', until => now());
CALL outbox.discard_dead_letters('main', dry_run => false, reason => 'why');
SELECT outbox.adopt();
SELECT outbox.reset_clock();
};

$node->safe_psql('postgres', 'CREATE ROLE some_role; CREATE ROLE first_role; CREATE ROLE second_role');
foreach my $database (qw(before after))
{
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	is(errors($database, $database eq 'before' ? $casts . $extension : $extension . $casts), '', "$database: casts and extension");
	is(errors($database, q{CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('main', server => 'nowhere');
		SELECT outbox.create_route('spare', server => 'nowhere', aggregate_types => '{none}'); SELECT outbox.drop_route('spare')}), '', "$database: routes");
	# A day of long ago, which somebody's view keeps.
	is(errors($database, q{SET client_min_messages = error; SET outbox.allow_loss = on; BEGIN;
		CREATE TABLE outbox_internal.log_20200101 (LIKE outbox_internal.log);
		CREATE INDEX ON outbox_internal.log_20200101 (xid);
		INSERT INTO outbox_internal.log_20200101 (created_at, id, xid, aggregate_type, event_type) VALUES ('2020-01-01 12:00+00', gen_random_uuid(), pg_current_xact_id(), 'o', 'old');
		ALTER TABLE outbox_internal.log ATTACH PARTITION outbox_internal.log_20200101 FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00');
		CREATE VIEW keeps AS SELECT * FROM outbox_internal.log_20200101;
		COMMIT}), '', "$database: an old day");
	my @ids = split /\n/, $node->safe_psql($database, q{SELECT outbox.emit('d', 'dead' || n::text, 'x', '{}'::jsonb, deliver_at => now() + interval '1 hour') FROM generate_series(1, 5) n;
		SELECT outbox.emit('o', '1', 'x', '{}')});
	ok($node->poll_query_until($database, q{SELECT count(*) = 5 FROM outbox_internal.parked}), "$database: events are parked");
	$node->safe_psql($database, q{SET client_min_messages = error; SET outbox.allow_loss = on; UPDATE outbox_internal.parked
		SET state = 'dead', due_at = NULL, attempts = 1, failed_at = now(), error_class = 'message', error_code = 'TOO_LARGE', error_message = 'too large'});
	is(errors($database, join("\n", (map { "\\set d$_ '$ids[$_ - 1]'" } 1 .. 5), "\\set id '$ids[5]'", $statements)), '', "$database: functions");
	ok($node->poll_query_until($database, q{SELECT held_by LIKE '%view public.keeps%' FROM outbox.day WHERE state = 'expired'}), "$database: what keeps the day");
	is($node->safe_psql($database, q{SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND proname !~ '^_'
		AND prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype) AND proname <> ALL (string_to_array('} . join(' ', $statements =~ /outbox\.(\w+)\(/g) . q{ create_route drop_route json_arg', ' ')) ORDER BY 1}),
		'', "$database: no function was left out");
	is(errors($database, $node->safe_psql($database, q{SELECT format('SELECT * FROM %s;', oid::regclass) FROM pg_class WHERE relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND relkind = 'v'})),
		'', "$database: views");
	is(doctor_fails($database), '', "$database: doctor()");
	# What is asked where something is there: a table below one with a trigger, a table that somebody would drop, roles that took each other's names.
	is(errors($database, q{CREATE TABLE t (id int); CREATE TABLE below () INHERITS (t);
		CREATE TRIGGER e AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('t', 'id'); INSERT INTO t VALUES (1);
		CREATE TABLE mine (LIKE outbox_internal.log)}), '', "$database: tables");
	is($node->safe_psql($database, q{SELECT hint FROM outbox.doctor() WHERE "check" = 'triggers'}), q{If they are to be emitted: CREATE TRIGGER e AFTER INSERT ON public.below FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('t', 'id');}, "$database: what to type");
	like(errors($database, 'ALTER TABLE outbox_internal.log ATTACH PARTITION mine DEFAULT'), qr/^ERROR:  55000: cannot attach/, "$database: its own guard refuses");
	like(errors($database, 'DROP TABLE outbox_internal.lane'), qr/^ERROR:  (?!42725)/, "$database: a table that is dropped");
	$node->safe_psql($database, q{SELECT outbox.grant_emit('first_role', '{first}'); SELECT outbox.grant_emit('second_role', '{second}')});
	$node->safe_psql('postgres', 'ALTER ROLE first_role RENAME TO third_role; ALTER ROLE second_role RENAME TO first_role; ALTER ROLE third_role RENAME TO second_role');
	is(errors($database, 'SELECT outbox_internal.follow_role_names()'), '', "$database: roles are renamed");
	is($node->safe_psql($database, q{SELECT string_agg(role::text || ' ' || topics[1], ', ' ORDER BY role) FROM outbox_internal.emit_right}), 'first_role second, second_role first', "$database: and followed");
	is(value($database, q{outbox.wait_until_idle('60 s')}), 't', "$database: all is delivered");
}

# --- a copy, which says so and is adopted ---
$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE before');
is(value('copy', q{SELECT status FROM outbox.doctor() WHERE "check" = 'identity' AND detail LIKE '%copy%' LIMIT 1}), 'problem', 'a copy');
is(doctor_fails('copy'), '', 'doctor() there');
is(errors('copy', q{SELECT * FROM outbox.lag; SELECT * FROM outbox.day; SELECT outbox.emit('o', '1', 'x', '{}'); SELECT outbox.adopt()}), '', 'is adopted');
is(value('copy', q{outbox.wait_until_idle('60 s')}), 't', 'and delivers');

# --- a clock that is ahead is put back ---
Outbox::Faults::shift_clock(3_600 * 1_000_000);
ok($node->poll_query_until('after', q{SELECT outbox.emit('o', '1', 'x', '{}') IS NOT NULL AND max(created_at) > now() + interval '50 minutes' FROM outbox_internal.log}), 'the clock is ahead');
Outbox::Faults::shift_clock(0);
is(errors('after', 'SELECT outbox.reset_clock(force => true)'), '', 'and is put back');
is(value('after', q{SELECT (detail->>'ahead_seconds')::int > 3000 FROM outbox.audit WHERE action = 'reset_clock'}), 't', 'as the audit says');

# --- what workers and emitters wrote ---
my $log = slurp_file($node->logfile);
is(join("\n", $log =~ /.* 42725 .*/g), '', 'nothing was ambiguous for anybody');
no_server_crashed($node);
done_testing();
