# An idle transaction that holds a snapshot, and one that has emitted and not committed, delay no other session's
# events; the late one's events arrive when it commits.
# matrix: B6
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('held'));
$node->safe_psql('postgres', "SELECT outbox.emit_text('warm', 'up', 'x', 'x')");
ok(wait_idle($node), 'first event');

my $reader = $node->background_psql('postgres', timeout => 600);
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class');
my $writer = $node->background_psql('postgres', timeout => 600);
$writer->query_safe("BEGIN; SELECT outbox.emit_text('order', 'late', 'x', 'late')");

my $slow = 0;
foreach my $i (1 .. 30)
{
	my $before = $redis->xlen('held');
	$node->safe_psql('postgres', "SELECT outbox.emit_text('order', 'k', 'x', 'event $i')");
	my $start = time;
	sleep 0.002 until $redis->xlen('held') > $before || time > $start + 60;
	$slow++ if time - $start >= 0.5;
}
cmp_ok($slow, '<=', 5, "each event arrived at once; $slow of 30 took half a second or more (the poll interval is 1 s)");
is($redis->xlen('held'), 31, 'all have arrived, and nothing of the open transaction');

$writer->query_safe('COMMIT');
ok(wait_idle($node), 'idle after the late commit');
is($redis->entries('held')->[-1]{payload}, 'late', 'the late event arrives when its transaction commits');
$writer->quit;
$reader->quit;
done_testing();
