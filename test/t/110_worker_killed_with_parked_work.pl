# A relay worker killed with SIGKILL (the server goes through crash recovery) while it holds parked work of every kind:
# scheduled events, a paused key, a topic on its own, dead letters that are being redriven. Nothing is lost, nothing is
# stuck, first occurrences are in order.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node(conf => "outbox.workers = 2\nrestart_after_crash = on\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('{aggregate_type}'), lanes => 2);
my @keys = map { "k$_" } 1 .. 10;

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub numbers { my ($from, $to) = @_; return join ' ', $from .. $to }
sub first_arrived
{
	my ($stream) = @_;
	my %seen;
	return by_key([ grep { !$seen{$_}++ } @{ $redis->column($stream, 'payload') } ]);
}
sub all { my ($to) = @_; return { map { $_ => numbers(1, $to) } @keys } }
# Kills a relay worker and waits until the server is back and workers run.
sub kill_worker
{
	my ($what) = @_;
	my @relays = relay_pids($node);
	kill KILL => $relays[ rand @relays ];
	my %old = map { $_ => 1 } @relays;
	return ok(wait_until(sub {
		my ($status, $out) = eval { $node->psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'outbox relay'") };
		my @now = split /\n/, $out // '';
		return defined $status && $status == 0 && @now == 2 && !grep { $old{$_} } @now;
	}, 60), $what);
}

# Work of every kind.
$redis->command('SET', 'bad', 'not a stream');
sql(q{SELECT outbox.pause(route => 'redis', aggregate_type => 'held', aggregate_id => 'k1', reason => 'test')});
emit_counted($node, $_, \@keys, 1, 20) foreach qw(well bad held);
my $due = int((time + 20) * 1000);
sql("SELECT count(outbox.emit_text('late', CASE WHEN i % 2 = 0 THEN 'k' END, 'x', 'n' || i % 2 || ' ' || i, deliver_at => to_timestamp($due / 1000.0))) FROM generate_series(1, 400) i");
ok(wait_for_value($node, q{SELECT count(*) FILTER (WHERE state = 'scheduled'), count(*) FILTER (WHERE state = 'blocked' AND aggregate_type = 'held') FROM outbox_internal.parked}, '400|20', 60),
	'events are scheduled and blocked');
ok(wait_for_value($node, q{SELECT count(DISTINCT topic) FROM outbox_internal.side_topic}, '1', 60), 'and a topic is on its own');

kill_worker('a worker is killed');
ok(wait_until(sub { (first_arrived('held')->{k2} // '') eq numbers(1, 20) }, 60), 'other keys arrive');
emit_counted($node, $_, \@keys, 21, 30) foreach qw(well bad held);
ok(wait_until(sub { my $seen = first_arrived('well'); join('|', map { $seen->{$_} // '' } @keys) eq join '|', (numbers(1, 30)) x @keys }, 60), 'healthy topics flow');
is(first_arrived('held')->{k1}, undef, 'the paused key stands still');
is(sql(q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'scheduled'}), '400', 'nothing scheduled has been lost, or sent too soon') if time * 1000 < $due - 500;

# While scheduled events are being sent, twice.
foreach my $round (1 .. 2)
{
	ok(wait_until(sub { $redis->xlen('late') > 20 * $round }, 60), "scheduled events are on their way, round $round");
	kill_worker("a worker is killed, round $round");
}
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE aggregate_type = 'late'}, '0', 60), 'all that is due is sent');
my $late = first_arrived('late');
is($late->{n0}, join(' ', map { $_ * 2 } 1 .. 200), 'those of one key in order, none missing');
is(join(' ', sort { $a <=> $b } split / /, $late->{n1}), join(' ', map { $_ * 2 - 1 } 1 .. 200), 'those without a key, none missing');

# All is let go.
$redis->command('DEL', 'bad');
sql(q{SELECT outbox.resume(route => 'redis', aggregate_type => 'held', aggregate_id => 'k1', reason => 'done')});
ok(wait_idle($node, 90), 'idle');
is_deeply(first_arrived($_), all(30), "$_: complete and in order") foreach qw(well bad held);
is(sql('SELECT (SELECT count(*) FROM outbox_internal.parked)'), '0', 'nothing is left parked');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.side_lane', '0', 60), 'no side lane is left');

# What a dead worker had in hand is under somebody's hands when the next one takes over: other keys do not wait for him.
sub workers
{
	my ($enabled, $count) = @_;
	sql("ALTER SYSTEM SET outbox.enabled = $enabled");
	sql('SELECT pg_reload_conf()');
	return ok(wait_until(sub { my @pids = relay_pids($node); return @pids == $count }, 60), "$count workers");
}
workers('off', 0);
sql(q{INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, due_at, sender, order_key, attempts, aggregate_type, aggregate_id,
	event_type, payload, topic)
  SELECT r.id, l.lane, now(), gen_random_uuid(), 'retrying', now(), 4711, 4711 + l.lane, 1, 'well', 'left ' || l.lane, 'x', 'left 1', 'well'
  FROM outbox.route r JOIN outbox_internal.lane l ON l.route_id = r.id});
my $operator = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$operator->query_safe('SET client_min_messages = warning; BEGIN; SELECT outbox.retry(id) FROM outbox_internal.parked');
emit_counted($node, 'well', \@keys, 31, 40);
workers('on', 2);
ok(wait_until(sub { my $seen = first_arrived('well'); join('|', map { $seen->{$_} // '' } @keys) eq join '|', (numbers(1, 40)) x @keys }, 20), 'other keys flow');
$operator->query_safe('COMMIT');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 60), 'and then what he held');
done_testing();
