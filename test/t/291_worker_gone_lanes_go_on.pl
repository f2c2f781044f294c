# A relay worker is gone, once, for longer, again and again, as it starts, while lanes are given back; or there is one more: whoever
# lives has its lanes at once, and gives them back when it is there again. Events under 128 keys, over 64 lanes, never stand
# still for a second and a half, arrive in order, and none twice, since all leave in good order. A worker that is terminated
# is back at once each time, one that fails is not. One that is killed again and again is held back, and its lanes are not.
# matrix: A4 A4s
use strict;
use warnings;

use IPC::Run ();
use Outbox::Faults;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $lanes = 64;
my $late = 1500;    # ms
my $node = new_node(conf => "outbox.workers = 2\nrestart_after_crash = on\nautovacuum = off\noutbox.max_lanes = 256\n");
# A file that is synced for each answer says how busy the disk is.
my $redis = Outbox::Redis->start(conf => ['appendfsync no']);
redis_route($node, $redis, 'redis', topic => q('stream'), lanes => $lanes);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub relay { my ($ordinal) = @_; return sql("SELECT pid FROM outbox.worker WHERE kind = 'relay' AND state = 'running' AND ordinal = $ordinal") }
sub set { my ($setting) = @_; sql("ALTER SYSTEM SET $setting"); return sql('SELECT pg_reload_conf()') }
# As the table says; a worker that has just gone may have its name there still.
sub parts { return wait_for_value($node, q(SELECT string_agg(n::text, ' ' ORDER BY n) FROM (SELECT count(*) AS n FROM outbox_internal.lane GROUP BY owner) l), $_[0], 30) }
sub terminate { my ($ordinal) = @_; return sql("SELECT pg_terminate_backend(@{[relay($ordinal)]}, 10000)") }

# Something of each key, ten times a second.
my $emitter;
sub begin_emitting
{
	sql(q(CREATE TABLE stop_emitting (); CREATE SEQUENCE number)) if !$emitter;
	my $statement = q(DO $$ DECLARE n bigint; BEGIN
		WHILE to_regclass('stop_emitting') IS NOT NULL LOOP
			n := nextval('number');
			PERFORM outbox.emit_text('t', 'k' || k, 'counted', k || ' ' || n) FROM generate_series(1, 128) k;
			COMMIT; PERFORM pg_sleep(0.1);
		END LOOP; END $$);
	$emitter = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'SET outbox.lone_emit = allow', '-c', $statement ], '<', \undef, '>&', \my $out);
	return;
}
# All that came, in order; news() reads what came since it was last called.
my @came;
sub news
{
	my $last = @came ? "($came[-1]{_entry}" : '-';
	my @news = map { +{ _entry => $_->[0], @{ $_->[1] } } } @{ $redis->command('XRANGE', 'stream', $last, '+') };
	push @came, @news;
	return @news;
}
# Milliseconds for which the slowest of the events that came since the last call was on its way.
sub slowest
{
	my $slowest = 0;
	foreach my $event (news())
	{
		my ($came) = $event->{_entry} =~ /^(\d+)-/;
		my $delay = $came - hex(substr($event->{id} =~ s/-//gr, 0, 12));
		$slowest = $delay if $delay > $slowest;
	}
	return $slowest;
}
sub flows
{
	my ($what) = @_;
	my $slowest = slowest();
	cmp_ok($slowest, '<', $late, "$what: the slowest event took $slowest ms");
	return;
}
# So many of the whole from now on.
sub await_events { my ($n) = @_; my $before = $redis->xlen('stream'); return wait_until(sub { $redis->xlen('stream') > $before + 128 * $n }, 60) }

begin_emitting();
ok(parts('32 32'), 'two workers have half of the lanes each');
ok(await_events(10), 'events flow');
slowest();

# --- one that does not come back ---
Outbox::Faults::arm('relay.start', 'fail *');
is(terminate(1), 't', 'one is terminated, and fails at each start');
ok(parts('64'), 'the other one has all lanes');
ok(await_events(30), 'events flow');
flows('one of two workers away');
sleep 2;    # in which one that is started at once each time would be so twenty times
cmp_ok(Outbox::Faults::hits('relay.start'), '<', 12, 'one that fails is tried less and less often');
Outbox::Faults::disarm('relay.start');
ok(parts('32 32'), 'there again, it is given its part');
ok(await_events(10), 'events flow');
flows('lanes given back');

# --- again and again ---
my $began = time;
foreach my $round (1 .. 8)
{
	my $pid = relay(1);
	terminate(1);
	wait_until(sub { my $now = relay(1); return $now ne '' && $now != $pid }, 60);
}
my $took = time - $began;
cmp_ok($took, '<', 15, sprintf 'terminated eight times, it is back each time, after %.1f s in all', $took);
ok(parts('32 32'), 'and has its part again');
ok(await_events(10), 'events flow');
flows('one of two workers terminated again and again');

# --- one more, and one less ---
Outbox::Faults::arm('relay.start', 'wait');
set('outbox.workers = 3');
ok(Outbox::Faults::await_waiting('relay.start'), 'a third one is about to start');
ok(await_events(20), 'events flow');
ok(parts('32 32'), 'nobody has left it lanes so far');
Outbox::Faults::release('relay.start');
ok(parts('20 22 22') , 'it is there, and is given its part');
Outbox::Faults::arm('relay.start', 'fail *');
terminate($_) foreach 1, 2;
ok(parts('64'), 'two of three are away: the third one has all lanes');
ok(await_events(20), 'events flow');
flows('two of three workers away');
Outbox::Faults::arm('release.before', 'wait');
Outbox::Faults::disarm('relay.start');
ok(Outbox::Faults::await_waiting('release.before'), 'one of them is there again, and the third one begins to give lanes back');
my $giver = relay(0);
sql("SELECT pg_terminate_backend($giver)");
Outbox::Faults::release('release.before');
ok(parts('20 22 22'), 'terminated in the middle of it: all three are there again, and have their part');
ok(await_events(10), 'events flow');
flows('terminated while it gave lanes back');
set('outbox.workers = 1');
ok(parts('64'), 'one worker');
terminate(0);
ok(wait_until(sub { relay(0) ne '' }, 30), 'the only one is terminated, and is back');
ok(await_events(10), 'events flow');
flows('the only worker terminated');

sql('DROP TABLE stop_emitting');
$emitter->finish;
ok(wait_idle($node), 'all is delivered');
news();
my (%last, @wrong);
foreach my $event (@came)
{
	my ($key, $n) = split / /, $event->{payload};
	push @wrong, "$key: $n after " . ($last{$key} // 0) if $n != ($last{$key} // 0) + 1;
	$last{$key} = $n;
}
my $emitted = sql('SELECT last_value FROM number');
push @wrong, map { "$_: $last{$_} of $emitted" } grep { $last{$_} != $emitted } sort keys %last;
is(join(', ', grep { defined } @wrong[ 0 .. 4 ]), '', "$emitted events of each key arrived, in order, none twice");
is(scalar keys %last, 128, 'and of all keys');
no_server_crashed($node);

# --- killed again and again: the server restarts each time ---
set('outbox.workers = 2');
ok(parts('32 32'), 'two workers');
my $slowest = 0;
foreach my $round (1 .. 4)
{
	my $pid;
	wait_until(sub { $pid = eval { relay(1) }; return $pid }, 30);
	my $crashes = crash_restarts($node);
	kill 'KILL', $pid;
	wait_until(sub { !kill 0, $pid }, 30);
	server_is_back($node, $crashes);
	my $began = time;
	wait_until(sub { defined eval { sql("SET outbox.lone_emit = allow; SELECT count(outbox.emit_text('t', 'k' || k, 'x', 'round $round')) FROM generate_series(1, 128) k") } }, 30);
	my %keys;
	wait_until(sub { $_->{payload} eq "round $round" && ($keys{ $_->{key} } = 1) foreach news(); return keys %keys == 128 }, 60);
	is(scalar keys %keys, 128, sprintf 'round %d: events of all keys came, %.1f s after the server was back', $round, time - $began);
	$slowest = time - $began if time - $began > $slowest;
}
cmp_ok($slowest, '<', 4, sprintf 'killed four times: events came %.1f s later at most', $slowest);
done_testing();
