# Brokers killed with SIGKILL in the middle of a load and started again on their data: nothing lost, first occurrences
# in order, and while one is down the other goes on.
# matrix: D2 D1
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node();
my $redis = Outbox::Redis->start;
my $kafka = Outbox::Kafka::available() ? Outbox::Kafka->start : undef;
$kafka->create_topic('killed', 2) if $kafka;
Outbox::Ledger::install($node);
redis_route($node, $redis, 'redis', topic => q('killed'));
kafka_route($node, $kafka, 'kafka', topic => q('killed')) if $kafka;

sub grows
{
	my $before = $redis->xlen('killed');
	for (1 .. 600) { return 1 if $redis->xlen('killed') > $before + 100; sleep 0.05 }
	return 0;
}

my $load = Outbox::Ledger::start_load($node, seconds => 300, clients => 2, rate => 40);
ok(grows(), 'events flow to Redis');
if ($kafka)
{
	$kafka->kill9;
	ok(grows(), 'Redis gets events while Kafka is dead');
}
$redis->kill9;
ok(wait_for_value($node, "SELECT count(*) > 0 FROM outbox.lag WHERE error_class = 'destination'", 't', 20),
	'outbox.lag shows destinations in trouble');
$redis->restart;
ok(grows(), 'Redis is back and gets events');
$kafka->restart if $kafka;
foreach my $round (1 .. 2)
{
	ok(grows(), "events flow before Redis is killed, round $round");
	$redis->kill9;
	$redis->restart;
}
ok(Outbox::Ledger::end_load($load), 'no session noticed that brokers died');
ok(wait_idle($node, 120), 'everything was delivered');

Outbox::Ledger::check($node, 'Redis', $redis->column('killed', 'payload'), duplicates => 1);
SKIP:
{
	skip $ENV{OUTBOX_NO_KAFKA}, 2 unless $kafka;
	Outbox::Ledger::check($node, 'Kafka', $kafka->payloads('killed'), duplicates => 1);
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'a broken destination parks nothing');
no_server_crashed($node);
done_testing();
