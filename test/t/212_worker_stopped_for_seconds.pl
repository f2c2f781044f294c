# A relay worker is stopped for three seconds (SIGSTOP) and goes on: nobody who emits waits, the other worker's lanes go on,
# nobody takes those of the one that is only stopped, and nothing is lost or repeated. 211 does so to every kind of process.
# matrix: F5
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node(conf => "restart_after_crash = off\noutbox.workers = 2\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'probe', topic => q('probe'), aggregate_types => q('{probe}'), lanes => 2);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub owners { return sql(q{SELECT string_agg(lane || '=' || coalesce(owner::text, '-'), ' ' ORDER BY lane) FROM outbox_internal.lane}) }
sub arrived { return $redis->xlen('probe') }
my $emitted = 0;
sub emit { $emitted += 8; return sql(q{SELECT count(outbox.emit_text('probe', 'k' || i, 'x', 'x')) FROM generate_series(1, 8) i}) }

ok(wait_for_value($node, 'SELECT count(DISTINCT owner), count(*) FROM outbox_internal.lane WHERE owner IS NOT NULL', '2|2', 30), 'each of two workers has a lane');
emit();
ok(wait_until(sub { $redis->command('EXISTS', 'probe') && arrived() == $emitted }, 30), 'events flow');
my $owners = owners();
my $pids = join ' ', sort { $a <=> $b } relay_pids($node);
my ($relay) = relay_pids($node);
kill 'STOP', $relay;
sleep 0.3; # in which what was on its way arrives
my $before = arrived();
my $start = time;
my $slowest = 0;
while (time - $start < 3)
{
	my $began = time;
	emit();
	$slowest = time - $began if time - $began > $slowest;
	sleep 0.1;
}
cmp_ok($slowest, '<', 2.5, sprintf 'nobody who emits waits (%.2f s)', $slowest);
cmp_ok(arrived(), '>', $before, 'the other worker goes on');
cmp_ok(arrived(), '<', $emitted, 'this one does not');
is(owners(), $owners, 'no lane is taken');
kill 'CONT', $relay;
ok(wait_until(sub { arrived() == $emitted }, 30), 'it goes on: everything arrives');
ok(wait_idle($node), 'all is delivered');
is(arrived(), $emitted, 'nothing is repeated');
is(join(' ', sort { $a <=> $b } relay_pids($node)), $pids, 'no process was replaced');
no_server_crashed($node);
done_testing();
