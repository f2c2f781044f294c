# A broker killed, and one stopped for 20 seconds with its connections open, in the middle of a load: the breaker opens and
# says why and until when, no event is charged, another destination flows, and recovery closes it at once. Nothing lost,
# first occurrences in order.
# matrix: D1 D9
# ring: long
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
	my $before;
	# Just after its broker is back a partition may have no leader.
	return wait_until(sub { defined($before = eval { $count->() }) }, $seconds) && wait_until(sub { (eval { $count->() } // 0) > $before + 50 }, $seconds);
}
my $in_kafka = sub { $kafka->count('load') };
my $in_redis = sub { $redis->xlen('load') };
my $state = q{SELECT state FROM outbox.destination WHERE server = 'kafka'};

my $load = Outbox::Ledger::start_load($node, seconds => 300, clients => 2, rate => 30);
ok(flows($in_kafka, 60), 'events flow');
ok(wait_for_value($node, $state, 'closed', 10), 'the breaker is closed');

sub is_open
{
	my ($what) = @_;
	return ok(wait_for_value($node, q{SELECT state, error_class, error_code <> '' AND error_message <> '', since <= now(), next_try > now(), trips > 0
		FROM outbox.destination WHERE server = 'kafka'}, 'open|destination|t|t|t|t', 60), $what);
}

# Killed: it is known at once that no broker is there. The client keeps what it was given, and says nothing: the breaker
# is open all the same, but for a few seconds at each try.
$kafka->kill9;
is_open('killed: the breaker is open, with reason, since and next try');
ok(wait_for_value($node, $state, 'half-open', 60), 'killed: it is tried');
is_open('killed: and open again');
ok(flows($in_redis, 30), 'killed: the other destination flows');
isnt($node->safe_psql('postgres', $state), 'closed', 'killed: it has not closed');
$kafka->restart;
my $back = time;
ok(wait_for_value($node, $state, 'closed', 60), 'back: it closes');
cmp_ok(time - $back, '<', 25, 'back: at once, not after the longest back-off');
ok(flows($in_kafka, 60), 'back: events flow');

# Stopped, its connections open: no error and no answer comes.
$kafka->pause;
my $stopped = time;
ok(flows($in_redis, 30), 'stopped: the other destination flows') foreach 1 .. 3;
is_open('stopped: the breaker is open, with reason, since and next try');
ok(flows($in_redis, 30), 'stopped: the other destination flows still');
ok(wait_until(sub { time - $stopped > 20 }, 30), 'stopped for 20 seconds');
$kafka->cont;
ok(flows($in_kafka, 60), 'going on: events flow');
ok(wait_for_value($node, $state, 'closed', 60), 'going on: the breaker is closed');
ok(Outbox::Ledger::end_load($load), 'no session noticed');
ok(wait_idle($node, 120), 'everything was delivered');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing was parked');
Outbox::Ledger::check($node, 'Kafka', $kafka->payloads('load'), duplicates => 1);
Outbox::Ledger::check($node, 'Redis', $redis->column('load', 'payload'));
no_server_crashed($node);
done_testing();
