# One transaction with a million events (OUTBOX_TEST_EVENTS sets another number) while no worker runs, then workers: all
# arrives in emit order and neither the worker nor its sink process grows beyond 256 MB.
# matrix: F1 B15
# ring: long
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $events = $ENV{OUTBOX_TEST_EVENTS} // 1_000_000;
my $limit_kb = 256 * 1024;

my $node = new_node(conf => "fsync = off\nmax_wal_size = 4GB\noutbox.workers = 0\n");
my $redis = Outbox::Redis->start(conf => ['appendfsync everysec', 'appendonly no']);
redis_route($node, $redis, 'redis', topic => q('big'));
$node->safe_psql('postgres', "SELECT count(outbox.emit_text('order', (i % 100)::text, 'x', i || repeat(' ', 290)))
	FROM generate_series(1, $events) i");
is($redis->xlen('big'), 0, 'no worker, no event');

$node->append_conf('postgresql.conf', "outbox.workers = 1\n");
$node->reload;
ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'", '1'), 'a worker starts');
my ($peak_worker, $peak_sink) = (0, 0);
my $deadline = time + 240;
while ($redis->xlen('big') < $events && time < $deadline)
{
	foreach my $pid (relay_pids($node))
	{
		$peak_worker = larger($peak_worker, peak_rss_kb($pid));
		$peak_sink = larger($peak_sink, peak_rss_kb($_)) foreach child_pids($pid);
	}
	sleep 0.1;
}
ok(wait_idle($node), 'everything was delivered');
is($redis->xlen('big'), $events, "$events events of one transaction arrived");
cmp_ok($peak_worker, '>', 0, 'the worker was measured');
cmp_ok($peak_worker, '<', $limit_kb, sprintf 'the worker took %d MB at most', $peak_worker / 1024);
cmp_ok($peak_sink, '<', $limit_kb, sprintf 'its sink process took %d MB at most', $peak_sink / 1024);

my ($out_of_order, $expected) = (0, 0);
foreach my $payload (@{ $redis->column('big', 'payload') }) { $out_of_order++ if int($payload) != ++$expected }
is($out_of_order, 0, 'in emit order');
done_testing();

sub larger { return $_[0] > $_[1] ? $_[0] : $_[1] }
