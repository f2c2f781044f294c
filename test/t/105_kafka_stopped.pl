# A broker killed, and one stopped, in the middle of a load: the breaker opens and says why, no event is charged, another
# destination flows, and recovery closes it at once. Nothing lost, first occurrences in order.
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start;
my $redis = Outbox::Redis->start;
$kafka->create_topic('load', 2);
Outbox::Ledger::install($node);
kafka_route($node, $kafka, 'kafka', topic => q('load'));
redis_route($node, $redis, 'redis', topic => q('load'));

sub flows
{
	my ($count, $seconds) = @_;
	my $before = $count->();
	return wait_until(sub { $count->() > $before + 50 }, $seconds);
}
my $in_kafka = sub { $kafka->count('load') };
my $in_redis = sub { $redis->xlen('load') };
my $state = q{SELECT state FROM outbox.destination WHERE server = 'kafka'};

my $load = Outbox::Ledger::start_load($node, seconds => 300, clients => 2, rate => 30);
ok(flows($in_kafka, 60), 'events flow');
ok(wait_for_value($node, $state, 'closed', 10), 'the breaker is closed');

# Killed: it is known at once that there is nobody. The breaker opens, and is half-open while its probe waits in the client.
$kafka->kill9;
ok(wait_for_value($node, q{SELECT state IN ('open', 'half-open') AND error_class = 'destination' AND error_code <> '' AND error_message <> '' AND since <= now() AND trips > 0
	FROM outbox.destination WHERE server = 'kafka'}, 't', 60), 'killed: the breaker opens, with reason and since');
ok(flows($in_redis, 30), 'killed: the other destination flows');
isnt($node->safe_psql('postgres', $state), 'closed', 'killed: it has not closed');
$kafka->restart;
my $back = time;
ok(wait_for_value($node, $state, 'closed', 60), 'back: it closes');
cmp_ok(time - $back, '<', 10, 'back: at once, not after a back-off');
ok(flows($in_kafka, 60), 'back: events flow');

# Stopped, its connections open: nobody says anything.
$kafka->pause;
ok(flows($in_redis, 30), 'stopped: the other destination flows') foreach 1 .. 3;
$kafka->cont;
ok(flows($in_kafka, 60), 'going on: events flow');
ok(wait_for_value($node, $state, 'closed', 60), 'going on: the breaker is closed');
ok(Outbox::Ledger::end_load($load), 'no session noticed');
ok(wait_idle($node, 120), 'everything was delivered');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox.parked'), '0', 'nothing was parked');
Outbox::Ledger::check($node, 'Kafka', $kafka->payloads('load'), duplicates => 1);
Outbox::Ledger::check($node, 'Redis', $redis->column('load', 'payload'));
no_server_crashed($node);
done_testing();
