# Launcher, keeper, a relay worker and a sink process are stopped for three seconds (SIGSTOP), each by itself and then all at
# once, and go on: nobody who emits waits, what the others have to do goes on, nobody takes the lanes of a worker that is
# only stopped, and nothing is lost or repeated.
# matrix: F5
# ring: long
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node(conf => "restart_after_crash = off\noutbox.workers = 2\n");
my $redis = Outbox::Redis->start;
Outbox::Ledger::install($node);
redis_route($node, $redis, 'load', topic => q('load'), aggregate_types => q('{order}'), lanes => 2);
redis_route($node, $redis, 'probe', topic => q('probe'), aggregate_types => q('{probe}'), lanes => 2);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub pids { my ($type) = @_; return split /\n/, sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'outbox $type' ORDER BY pid") }
sub owners { return sql(q{SELECT string_agg(route_id || '/' || lane || '=' || coalesce(owner::text, '-'), ' ' ORDER BY route_id, lane) FROM outbox_internal.lane}) }
my $emitted = 0;
# One event for each lane of the route.
sub emit { $emitted += 8; return sql(q{SELECT count(outbox.emit_text('probe', 'k' || i, 'x', 'x')) FROM generate_series(1, 8) i}) }

sub arrived { return $redis->xlen('load') + $redis->xlen('probe') }

my $load = Outbox::Ledger::start_load($node, seconds => 300, clients => 2, rate => 10);
emit();
ok(wait_until(sub { $redis->command('EXISTS', 'load') && $redis->xlen('load') > 200 && $redis->xlen('probe') == $emitted }, 30), 'events flow');
ok(wait_for_value($node, 'SELECT count(DISTINCT owner), count(*) FROM outbox_internal.lane WHERE owner IS NOT NULL', '2|4', 30), 'the lanes are shared out');
my %process = (launcher => [ pids('launcher') ], keeper => [ pids('keeper') ], relay => [ (pids('relay'))[0] ], sink => [ (child_pids((pids('relay'))[0]))[0] ]);
$process{'all of them'} = [ map { @$_ } @process{qw(launcher keeper relay sink)} ];
my $server = sql('SELECT pg_postmaster_start_time()');

foreach my $what ('launcher', 'keeper', 'relay', 'sink', 'all of them')
{
	my $owners = owners();
	kill 'STOP', @{ $process{$what} };
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
	# A psql is started for each; whoever waited for what is stopped would wait for three seconds.
	cmp_ok($slowest, '<', 2.5, sprintf '%s stopped: nobody who emits waits (%.2f s)', $what, $slowest);
	cmp_ok(arrived(), '>', $before, "$what stopped: what the others have to do goes on");
	is(owners(), $owners, "$what stopped: no lane is taken");
	kill 'CONT', @{ $process{$what} };
	ok(wait_until(sub { $redis->xlen('probe') == $emitted }, 30), "$what goes on: everything arrives");
}
ok(Outbox::Ledger::end_load($load), 'no session noticed');
ok(wait_idle($node, 60), 'all is delivered');
Outbox::Ledger::check($node, 'Redis', $redis->column('load', 'payload'));
is($redis->xlen('probe'), $emitted, 'nothing is repeated');
is(join(' ', map { pids($_) } qw(launcher keeper)), join(' ', map { @{ $process{$_} } } qw(launcher keeper)), 'no process was replaced');
is(sql('SELECT pg_postmaster_start_time()'), $server, 'the server did not restart');
no_server_crashed($node);
done_testing();
