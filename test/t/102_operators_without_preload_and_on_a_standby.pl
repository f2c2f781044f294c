# The functions of operators where no worker can be: without preload they act on the tables all the same; on a standby
# each says so, and everything can be looked at.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\nsession_preload_libraries = ''\n");
$node->start;
$node->psql('postgres', q{
	CREATE EXTENSION outbox;
	CREATE SERVER events FOREIGN DATA WRAPPER outbox_log;
	SELECT outbox.create_route('everything', server => 'events', on_failure => 'block')});
my $park = q{
	INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, order_key, aggregate_type, aggregate_id, event_type, payload, topic)
	SELECT r.id, 0, timestamptz '2026-01-01' + n * interval '1 s', ('00000000-0000-4000-8000-00000000000' || n)::uuid,
		CASE n WHEN 1 THEN 'dead' ELSE 'blocked' END, 7, 'order', '42', 'e', '{}', 't' FROM outbox.route r, generate_series(1, 3) n
	ON CONFLICT DO NOTHING};
$node->safe_psql('postgres', $park);

my ($first, $second, $third) = map { "00000000-0000-4000-8000-00000000000$_" } 1 .. 3;
sub states { return $_[0]->safe_psql('postgres', q{SELECT string_agg(right(id::text, 1) || ' ' || state, ', ' ORDER BY created_at) FROM outbox_internal.parked}) }
is(states($node), '1 dead, 2 blocked, 3 blocked', 'a dead letter holds its key');
is($node->safe_psql('postgres', "SELECT outbox.skip('$first', 'gone')"), '1', 'it can be skipped');
is(states($node), '2 retrying, 3 retrying', 'and the others are let go, though no worker is there to send them');
is($node->safe_psql('postgres', "SELECT outcome FROM outbox_internal.outcome"), 'skipped', 'the day table of outcomes is made at need');
is($node->safe_psql('postgres', "SELECT outbox.pause('everything', reason => 'r'), outbox.resume('everything')"), 't|t', 'pause and resume');
my (undef, $out) = $node->psql('postgres', "CALL outbox.replay(since => '-infinity', route => 'everything', dry_run => false)");
like($out, qr/^\d+\|0$/, 'replay finds nothing');
(undef, $out) = $node->psql('postgres', "CALL outbox.seek('everything', 'infinity', dry_run => false)");
is($out, '0|0', 'seek');
is($node->safe_psql('postgres', 'SELECT count(*) > 4 FROM outbox.audit'), 't', 'all of it is in the audit');

# A session that is idle in a transaction with an event in hand holds up nobody who looks, and its abort undoes all of it.
my $session = $node->background_psql('postgres', timeout => 600);
$session->query_safe("SET client_min_messages = error; BEGIN; SELECT outbox.skip('$second', 'perhaps')");
is(states($node), '2 retrying, 3 retrying', 'others see it when it is committed');
$session->query_safe('ROLLBACK');
$session->quit;
is($node->safe_psql('postgres', q{SELECT count(*) FROM outbox.audit WHERE reason = 'perhaps'}), '0', 'and not at all otherwise');

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
foreach my $call ("SELECT outbox.retry('$second')", "SELECT outbox.skip('$second', 'x')", "SELECT outbox.discard('$second', 'x')",
	"SELECT outbox.pause('everything', reason => 'x')", "SELECT outbox.resume('everything')", 'SELECT outbox.cancel_replay(1)', 'SELECT outbox.adopt()',
	'CALL outbox.redrive(dry_run => false)', "CALL outbox.discard_dead_letters(dry_run => false, reason => 'x')",
	"CALL outbox.replay(since => now(), route => 'everything', dry_run => false)", "CALL outbox.seek('everything', now(), dry_run => false)")
{
	my ($status, undef, $stderr) = $standby->psql('postgres', "\\set VERBOSITY verbose\n$call");
	isnt($status, 0, "refused on a standby: $call");
	like($stderr, qr/ERROR:  25006: cannot execute outbox\.\w+\(\) during recovery/, 'with the reason');
}
foreach my $query ('TABLE outbox.dead_letter', 'TABLE outbox.dead_letter_summary', 'TABLE outbox.blocked_key', 'TABLE outbox.pause',
	'TABLE outbox.audit', 'TABLE outbox.replay', 'TABLE outbox.lag', "SELECT outbox.status('$second')",
	"SELECT outbox.parked_content('$second')", 'SELECT outbox.doctor()')
{
	my ($status, undef, $stderr) = $standby->psql('postgres', $query);
	is($status, 0, "can be looked at: $query") or diag($stderr);
}
my $doctor = q(SELECT string_agg("check" || ' ' || status, ', ' ORDER BY "check") FROM outbox.doctor());
is($standby->safe_psql('postgres', $doctor), 'preload problem, standby ok, version ok', 'doctor() tells of what will be missing after a promotion');
$standby->append_conf('postgresql.conf', "shared_preload_libraries = 'outbox'\n");
$standby->restart;
is($standby->safe_psql('postgres', $doctor), 'preload ok, standby ok, version ok', 'and finds nothing wrong with a standby that publishes nothing');
my $in_recovery = q(SELECT value FROM outbox.metrics() WHERE name = 'outbox_in_recovery');
is($node->safe_psql('postgres', $in_recovery) . $standby->safe_psql('postgres', $in_recovery), '01', 'its figures say what it is');
my $after = q(SELECT status || ': ' || detail FROM outbox.doctor() WHERE "check" = 'standby');
like($standby->safe_psql('postgres', $after), qr/^ok: .*Then it goes on by itself\.$/, 'which will go on when it is promoted');
foreach my $case ([ "outbox.instance = 'clone'", qr/^problem: .*After that it is a copy, and silent/ ],
	[ 'outbox.enabled = off', qr/^warning: .*Nor after that: outbox\.enabled is off/ ],
	[ 'outbox.workers = 0', qr/^warning: .*Nor after that: outbox\.workers is 0/ ])
{
	my ($setting, $says) = @$case;
	$standby->append_conf('postgresql.conf', $setting);
	$standby->restart;
	like($standby->safe_psql('postgres', $after), $says, "unless $setting");
	is($standby->safe_psql('postgres', 'SELECT outbox.doctor_ok()'), 'f', 'which is not well');
	$standby->adjust_conf('postgresql.conf', $setting =~ /^(\S+)/, undef);
}
$standby->restart;
foreach my $try ([ q{outbox.wait_until_idle('1 s')}, 'nothing is published during recovery', 'Wait on the primary server' ],
	[ q{outbox.receive('billing', gen_random_uuid())}, 'cannot receive an event on a standby', 'Send it to the primary' ],
	[ q{outbox.emit('order', 1, 'e', '{}')}, 'cannot emit an event on a standby', 'Connect to the primary' ])
{
	my ($call, $what, $way) = @$try;
	like(($standby->psql('postgres', "SELECT $call"))[2], qr/ERROR:  $what.*HINT:  $way/s, "$call on a standby");
}
no_server_crashed($standby);
no_server_crashed($node);
done_testing();
