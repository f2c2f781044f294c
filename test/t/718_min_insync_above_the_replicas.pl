# A topic with fewer replicas than min.insync.replicas asks for (a cluster's default, say): Kafka takes its events from 3.7 on, and outbox.test_server()
# says what older brokers do; it finds no fault with the topic.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start('heap=256m', 'min.insync.replicas=2');
$kafka->create_topic('t', 2);
kafka_route($node, $kafka, 'r', topic => q('t'));
emit_counted($node, 't', ['a', 'b'], 1, 10);
ok(wait_idle($node, 60), 'its events are delivered');
is($kafka->count('t'), 20, 'all of them');
my $looked = q{SELECT "check", ok, error_code, detail, hint ~ 'Kafka 3\.7' FROM outbox.test_server('r', 't', timeout => '60 s') WHERE NOT ok OR "check" = 'replicas'};
my $few = 'replicas|t||partition 0 of topic "t" has 1 replica, and min.insync.replicas is 2|t';
# A machine that is busy may not get the topic's settings in the two seconds that they have.
ok(wait_for_value($node, $looked, $few, 60), 'test_server() says how many it has and should have, and of which brokers that matters')
  or diag($node->safe_psql('postgres', $looked));
no_server_crashed($node);
done_testing();
