# A process of the extension that crashes at every start does not restart the server's sessions over and over: it is held
# back for longer and longer, which outlives the crashes, outbox.doctor() says so, and a reload tries at once. One that
# merely fails at every start disturbs no session. A process is not held back for another one's crash.
# matrix: A2 A5
# ring: long
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node(conf => "restart_after_crash = on\nautovacuum = off\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('loop'));

sub try_sql { my ($sql) = @_; my ($status, $out) = eval { $node->psql('postgres', $sql) }; return defined $status && $status == 0 ? $out : undef }

my $emitted = 0;
sub emit { $emitted++ if defined try_sql(q(SELECT outbox.emit('order', 1, 'order.created', '{}'))); return }

emit();
ok(wait_idle($node), 'events flow');

foreach my $case ([ 'relay.start', 'relay worker' ], [ 'keeper.start', 'keeper' ], [ 'launcher.turn', 'launcher' ])
{
	my ($point, $what) = @$case;
	my $before = crash_restarts($node);
	Outbox::Faults::arm($point, 'kill *');
	try_sql(q(SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type ~ 'outbox (relay|keeper)'));
	ok(wait_until(sub { crash_restarts($node) - $before >= 3 }, 60), "$what: crashes the server at its first starts");
	ok(wait_until(sub { (try_sql(q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'crashes' AND status = 'problem')) // 0) > 0 }, 30),
		"$what: and is then held back, which doctor() tells") or diag(try_sql('SELECT * FROM outbox.doctor()'));
	sleep 0.5; # a crash that had begun when it was held back is counted
	my $held = crash_restarts($node);
	my $start = time;
	my ($good, $tries) = (0, 0);
	while (time - $start < 12) { $good++ if defined try_sql('SELECT 1'); $tries++; emit(); sleep 0.2 }
	cmp_ok(crash_restarts($node) - $held, '<=', 3, "$what: at most three more restarts of the server in 12 s: " . (crash_restarts($node) - $held));
	cmp_ok($good, '>', $tries / 2, "$what: sessions work meanwhile, $good of $tries");
	Outbox::Faults::disarm($point);
	# A reload just after a crash finds no launcher yet.
	ok(wait_until(sub { try_sql('SELECT pg_reload_conf()'); (try_sql(q(SELECT outbox.wait_until_idle('2 s'))) // '') eq 't' }, 60), "$what: and everything is delivered");
	is(try_sql(q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'crashes')), '0', "$what: doctor() is content");
	$node->restart;
}

# Failing is not crashing.
my $before = crash_restarts($node);
Outbox::Faults::arm('relay.start', 'fail *');
$node->safe_psql('postgres', q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'outbox relay'));
sleep 6; # in which a worker that is started at once each time would be so some sixty times
cmp_ok(Outbox::Faults::hits('relay.start'), '<', 25, 'a relay worker that fails at every start is started less and less often');
is(crash_restarts($node), $before, 'and no session notices');
Outbox::Faults::disarm('relay.start');
ok(wait_until(sub { (try_sql(q(SELECT outbox.wait_until_idle('2 s'))) // '') eq 't' }, 40), 'it comes back when it can');
ok(wait_until(sub { PostgreSQL::Test::Utils::slurp_file($node->logfile) =~ /LOG:  outbox: the relay worker of database "postgres" is not held back any more, after/ }, 60),
	'which the log says once it has lasted');

# Others crash: our processes are started at once, each time.
foreach my $round (1 .. 4)
{
	$before = crash_restarts($node);
	my $pid = IPC::Run::start([ 'psql', '-XAtqc', 'SELECT pg_sleep(60)', $node->connstr('postgres') ], '<', \undef, '>&', \my $out);
	my $backend;
	wait_until(sub { $backend = try_sql(q(SELECT pid FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)')) }, 60);
	kill 'KILL', $backend if $backend;
	wait_until(sub { crash_restarts($node) > $before }, 60);
	$pid->finish;
	my $held = 0;
	ok(wait_until(sub {
		$held ||= (try_sql(q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'crashes')) // 0) > 0;
		return (try_sql(q(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay')) // 0) > 0;
	}, 30) && !$held, "another process crashed, round $round: the relay worker is back and was not held back");
}
is(try_sql(q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'crashes')), '0', 'and no process is held back');
emit();
ok(wait_idle($node), 'events flow');
cmp_ok($redis->xlen('loop'), '>=', $emitted, 'all of them arrived');
done_testing();
