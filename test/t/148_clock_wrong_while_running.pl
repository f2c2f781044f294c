# The wall clock is wrong for a while, by a month, by ten years, by five days back, while the server runs: events keep
# their dates, nothing that was delivered is dropped, nothing scheduled goes early. One that stays where it went is
# followed. outbox.reset_clock() undoes what was followed in error: nothing is lost, repeated or out of order, also
# after restarts.
# matrix: B13 R4
use strict;
use warnings;

use Outbox::Clock;
use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

Outbox::Clock::prepare(PostgreSQL::Test::Utils::tempdir());
my $redis = Outbox::Redis->start;
my $day = 86_400;
my $n = 0;

sub psql { my ($sql) = @_; return $main::node->safe_psql('postgres', $sql) }
sub doctor { return psql("SELECT status || ': ' || detail || coalesce(' ' || hint, '') FROM outbox.doctor() WHERE \"check\" = 'clock'") }
sub upkeep
{
	my $before = time;
	psql('SELECT pg_reload_conf()');
	return wait_for_value($main::node, q(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox keeper' AND state = 'idle'), 1);
}
# An event; seconds by which it is dated off from the true time.
sub emit
{
	$n++;
	psql("SELECT outbox.emit('t', 'k', 'e', '$n')");
	return psql("SELECT extract(epoch FROM created_at) FROM outbox_internal.log WHERE aggregate_type = 't' AND convert_from(payload, 'UTF8') = '$n'") - time;
}
sub days { return psql("SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE inhparent = 'outbox_internal.log'::regclass AND c.relname <= '$_[0]'") }
sub arrived { return join ' ', @{ $redis->column('outbox.event.t', 'payload') } }

# Three days ago there were events, and they were delivered.
Outbox::Clock::set(-3 * $day);
our $node = Outbox::Clock::with(sub { new_node(conf => "outbox.retention = '7d'\n") });
Outbox::Clock::believe_after(0);
redis_route($node, $redis, 'r');
cmp_ok(abs(emit() + 3 * $day), '<', 60, 'an event of three days ago');
Outbox::Clock::set(0);
cmp_ok(abs(emit()), '<', 60, 'and one of today');
ok(wait_idle($node), 'both are delivered');
my $today = psql(q(SELECT max(c.relname) FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN outbox_internal.log l ON l.tableoid = c.oid));
my $days = days($today);
psql("SELECT outbox.emit('scheduled', 'k', 'later', '1', deliver_at => now() + interval '2 days')");
ok(wait_for_value($node, q(SELECT count(*) FROM outbox_internal.parked), 1), 'one is scheduled for the day after tomorrow');

Outbox::Clock::believe_after(300);
foreach my $off (30 * $day, 3652 * $day, -5 * $day)
{
	Outbox::Clock::set($off);
	cmp_ok(abs(emit()), '<', 90, "wrong by $off seconds: an event has the time that it is");
	like(doctor(), qr/^warning: The server's clock has jumped by -?\d+ seconds/, 'doctor() says so');
	upkeep();
	cmp_ok(abs(emit()), '<', 90, 'so has the next');
	ok(wait_idle($node), 'they are delivered');
	# How long something waits is told by the clock that dated it.
	psql("SELECT outbox.pause(route => 'r', reason => 'test')");
	emit();
	sleep 0.1;
	is(psql('SELECT extract(epoch FROM delay) BETWEEN 0.05 AND 90 FROM outbox.lag'), 't', 'what waits is as old as it is');
	is(psql(q(SELECT value BETWEEN 0.05 AND 90 FROM outbox.metrics() WHERE name = 'outbox_oldest_pending_age_seconds')), 't', 'in the figures, too');
	psql("SELECT outbox.resume(route => 'r')");
	ok(wait_idle($node), 'it is delivered');
	Outbox::Clock::set(0);
	cmp_ok(abs(emit()), '<', 90, 'and one after that');
	upkeep();
	is(days($today), $days, 'no day is dropped');
	like(doctor(), qr/^ok/, 'all is well again');
}
is($redis->command('XLEN', 'outbox.event.scheduled'), 0, 'what is scheduled waits');
is(psql('SELECT count(*) FROM outbox_internal.parked'), 1, 'in its place');
my @told = slurp_file($node->logfile) =~ /the server's clock has jumped by/g;
cmp_ok(scalar(@told), '<=', 3, 'the server log has a line for each at most');

# One that stands by its word.
Outbox::Clock::believe_after(2);
Outbox::Clock::set($day);
cmp_ok(abs(emit()), '<', 90, 'a clock that has just jumped by a day');
my $deadline = time + 30;
while (doctor() !~ /^ok/ && time < $deadline) { sleep 0.1 }
cmp_ok(abs(emit() - $day), '<', 90, 'is followed when it has stood there for a while');
ok(wait_idle($node), 'events flow');
is(days($today), $days, 'days within the retention stay');

# It was wrong after all.
Outbox::Clock::set(0);
$deadline = time + 30;
while (doctor() =~ /jumped/ && time < $deadline) { sleep 0.1 }
like(doctor(), qr/^problem: .*reset_clock/, 'a clock of events that is far ahead is a problem, and there is a way');
cmp_ok(abs(emit() - $day), '<', 90, 'events go on in order');
ok(wait_idle($node), 'and are delivered');

# Who may, and when.
my $expected = join ' ', 1 .. $n;
is(arrived(), $expected, 'all have arrived, once, in order');
psql('CREATE ROLE nobody_special');
isnt($node->psql('postgres', 'SET ROLE nobody_special; SELECT outbox.reset_clock()'), 0, 'not everybody may put it back');
Outbox::Faults::put('reset.sooner', 9_500_000);
my ($out, $err);
psql("SELECT outbox.pause(route => 'r', reason => 'test')");
emit();
isnt($node->psql('postgres', 'SELECT outbox.reset_clock()', stderr => \$err), 0, 'refused while an event is undelivered');
like($err, qr/cannot put the clock of events back now\nDETAIL:  Route "r" has 1 undelivered/, 'and is told why');
psql("SELECT outbox.resume(route => 'r')");
ok(wait_idle($node), 'it is delivered');
psql("BEGIN; SELECT outbox.emit('t', 'k', 'e', '" . ++$n . "'); PREPARE TRANSACTION 'open'");
isnt($node->psql('postgres', 'SELECT outbox.reset_clock()', stderr => \$err), 0, 'nor while a transaction that has emitted is open');
like($err, qr/prepared transaction open/, 'which is named');
psql("COMMIT PREPARED 'open'");
ok(wait_idle($node), 'it is delivered');
isnt($node->psql('postgres', "BEGIN; SELECT outbox.reset_clock(); SELECT outbox.emit('t', 'k', 'no', '0'); COMMIT", stderr => \$err), 0, 'nor in a transaction that emits');
like($err, qr/cannot emit, or prepare, in a transaction that puts the clock back.*HINT:  SELECT outbox\.reset_clock\(\) in a transaction of its own/s, 'which says how');
Outbox::Faults::put('reset.sooner', 0);
foreach my $level ('repeatable read', 'serializable')
{
	isnt($node->psql('postgres', "SET default_transaction_isolation = '$level'; SELECT outbox.reset_clock()", stderr => \$err), 0, "nor in a $level transaction");
	like($err, qr/READ COMMITTED only.*HINT:  BEGIN ISOLATION LEVEL READ COMMITTED; SELECT outbox.reset_clock\(\); COMMIT;/s, 'which names the level');
}
isnt($node->psql('postgres', 'BEGIN; SAVEPOINT s; SELECT outbox.reset_clock()', stderr => \$err), 0, 'nor in a subtransaction');
like($err, qr/in a subtransaction/, 'which is said');
psql("SET default_transaction_isolation = 'serializable'; BEGIN ISOLATION LEVEL READ COMMITTED; SELECT outbox.reset_clock(); ROLLBACK");
cmp_ok(abs(emit() - $day), '<', 90, 'taken back it has never been');
ok(wait_idle($node), 'events flow');

# Under load, by sessions that emit all the time.
psql('CREATE TABLE keys (id int PRIMARY KEY, n int NOT NULL DEFAULT 0); INSERT INTO keys SELECT generate_series(1, 5)');
my $script = $node->basedir . '/load.sql';
append_to_file($script, q{
\set k random(1, 5)
BEGIN;
UPDATE keys SET n = n + 1 WHERE id = :k RETURNING n \gset
SELECT outbox.emit('load', :k, 'e', to_jsonb(:n));
COMMIT;
});
my $load = IPC::Run::start([ 'pgbench', '-n', '-c', 4, '-T', 6, '-R', 300, '-f', $script, $node->connstr('postgres') ], '>', \my $load_out, '2>', \my $load_err);
ok(wait_for_value($node, q(SELECT count(*) > 50 FROM outbox_internal.log WHERE aggregate_type = 'load'), 't'), 'four sessions emit');
# It waits for them for a moment; a machine that is busy may not let them end in time.
ok(wait_until(sub { ($node->psql('postgres', q(SELECT outbox.reset_clock() BETWEEN '23 hours' AND '25 hours')))[1] eq 't' }, 60), 'the clock goes back by a day');
$load->finish;
unlike($load_err, qr/ERROR/, 'they go on');
ok(wait_idle($node), 'all is delivered');
my %last;
my @wrong;
foreach my $entry (@{ $redis->entries('outbox.event.load') })
{
	my $after = $last{ $entry->{key} }++ // 0;
	push @wrong, "$entry->{key}: $entry->{payload} ($entry->{id}, entry $entry->{_entry}) after $after" if $entry->{payload} != $after + 1;
}
is(join("\n", @wrong), '', 'each event of each key once, in order') or diag(psql(q(SELECT string_agg(a::text, E'\n') FROM outbox.audit a)));
is(join(' ', map { $last{$_} // 0 } 1 .. 5), psql(q(SELECT string_agg(n::text, ' ' ORDER BY id) FROM keys)), 'to the last');
cmp_ok(abs(emit()), '<', 90, 'events have the time that it is');
like(doctor(), qr/^ok/, 'all is well');
ok(wait_idle($node), 'and they arrive');

my $loaded = $redis->command('XLEN', 'outbox.event.load');
foreach my $how ('fast', 'immediate')
{
	$node->stop($how);
	Outbox::Clock::with(sub { $node->start });
	cmp_ok(abs(emit()), '<', 90, "after a stop, $how: the same");
	ok(wait_idle($node), 'events flow');
}
is(arrived(), join(' ', 1 .. $n), 'nothing was repeated, lost, or out of order');
is($redis->command('XLEN', 'outbox.event.load'), $loaded, 'nor of the others');
is(psql(q(SELECT sum(pending) FROM outbox.lag)), '0', 'nothing is pending');
no_server_crashed($node);
done_testing();
