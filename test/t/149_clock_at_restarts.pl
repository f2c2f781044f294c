# The clock of events over restarts: a ceiling ahead of the wall clock holds for each of five databases, whoever reads
# first; stops in good order push it nowhere, crashes not far; a wall clock that is wrong when the server starts drops
# nothing, and what it did to the clock is undone.
# matrix: B13 R4
# ring: long
use strict;
use warnings;

use Outbox::Clock;
use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

Outbox::Clock::prepare(PostgreSQL::Test::Utils::tempdir());
my $node = Outbox::Clock::with(sub { new_node(conf => "outbox.retention = '2d'\nmax_worker_processes = 30\noutbox.workers = 1\n") });
my $day = 86_400;

sub off { my ($database) = @_; return $node->safe_psql($database // 'postgres', 'SELECT extract(epoch FROM created_at) FROM outbox_internal.log ORDER BY xid DESC LIMIT 1') - time }
sub emit { my ($what, $database) = @_; $node->safe_psql($database // 'postgres', "SELECT outbox.emit('t', 'k', '$what', '1')"); return off($database) }
sub restart { my ($how) = @_; $node->stop($how); Outbox::Clock::with(sub { $node->start }); return }
sub doctor { return $node->safe_psql('postgres', "SELECT status FROM outbox.doctor() WHERE \"check\" = 'clock'") }

# --- drift ------------------------------------------------------------------------------------------------------------
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r');
cmp_ok(abs(emit('first')), '<', 30, 'a clock that is right');
for (1 .. 5) { ok(wait_idle($node), 'delivered'); restart('fast'); emit('again') }
cmp_ok(off(), '<', 9, 'five stops in good order push it nowhere');
for (1 .. 6) { restart('immediate'); emit('crashed') }
cmp_ok(off(), '<', 12, 'six crashes by no more than one');
is(doctor(), 'ok', 'doctor() has nothing to say');

# --- five databases ---------------------------------------------------------------------------------------------------
my @others = map { "d$_" } 1 .. 4;
foreach my $database (@others)
{
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, 'CREATE EXTENSION outbox');
	emit('one', $database);
}
my %ahead = (d1 => 3600, d2 => 7200, d3 => 0, d4 => 3 * $day);
foreach my $database (grep { $ahead{$_} } @others)
{
	$node->safe_psql($database, "SELECT setval('outbox_internal.clock_ceiling', (extract(epoch FROM now() + interval '$ahead{$_} s') * 1000000)::bigint)") for $database;
}
restart('fast');
cmp_ok(abs(emit('first of all')), '<', 30, 'after a restart one database emits first');
# Their keepers keep their ceilings meanwhile.
ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox keeper' AND state = 'idle'), 5), 'all keepers have looked');
foreach my $database (@others)
{
	my $off = emit('two', $database);
	cmp_ok(abs($off - $ahead{$database}), '<', 60, "$database begins above its own ceiling");
	is($node->safe_psql($database, q(SELECT string_agg(event_type, ' ' ORDER BY created_at) FROM outbox_internal.log)), 'one two', "$database: in order");
}
cmp_ok(abs(emit('again')), '<', 30, 'and the first is where it was');
foreach my $database (@others)
{
	is($node->safe_psql($database, 'SELECT outbox.reset_clock() > interval \'50 minutes\''), $ahead{$database} ? 't' : 'f', "$database is put back");
	cmp_ok(abs(emit('three', $database)), '<', 30, 'by itself');
}

# --- wrong when it starts ---------------------------------------------------------------------------------------------
my $today = $node->safe_psql('postgres', 'SELECT max(tableoid::regclass::text) FROM outbox_internal.log');
ok(wait_idle($node), 'all is delivered');
my $repeated = $redis->command('XLEN', 'outbox.event.t') - $node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.log');  # crashes may
foreach my $off (30 * $day, -5 * $day)
{
	$node->stop('fast');
	Outbox::Clock::set($off);
	Outbox::Clock::with(sub { $node->start });
	my $wrong = emit('wrong');
	cmp_ok(abs($wrong - ($off > 0 ? $off : 0)), '<', 60, "a clock that is wrong by $off seconds when the server starts");
	ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox keeper' AND state = 'idle'), 5), 'the keepers have looked');
	is($node->safe_psql('postgres', "SELECT to_regclass('$today') IS NOT NULL"), 't', 'drops nothing');
	ok(wait_idle($node), 'and delays nothing');
	Outbox::Clock::believe_after(0);
	Outbox::Clock::set(0);
	emit('right');
	ok(wait_idle($node), 'set right, events flow');
	is(doctor(), $off > 0 ? 'problem' : 'ok', 'doctor() says what is to be said');
	$node->safe_psql('postgres', 'SELECT outbox.reset_clock()');
	$node->safe_psql('postgres', q(SELECT outbox.emit('t', 'k', 'last', '1')));
	is($node->safe_psql('postgres', "SELECT count(*) FROM $today WHERE event_type = 'last'") > 0 ? 1 : 0, 1, 'the next event is in the table of today');
	ok(wait_idle($node), 'and is delivered');
	is($redis->command('XLEN', 'outbox.event.t') - $repeated, $node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.log'), 'each once');
	Outbox::Clock::believe_after(300);
}
no_server_crashed($node);
done_testing();
