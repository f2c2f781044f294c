# A broker that makes topics, and one topic that it cannot make (beside another whose name differs in dots and underscores only): of new
# ones the cluster is asked before a record is risked, and does not know them yet. They are made all the same, and get their events in
# order, once.
# ring: long
use strict;
use warnings;

use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start('auto.create.topics.enable=true');
$kafka->create_topic('orders_paid', 1);
kafka_route($node, $kafka, 'topics', topic => q('{aggregate_type}'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub emit { my ($topic, $from, $to) = @_; return sql("SELECT outbox.emit_text('$topic', 'k', 'counted', 'k ' || n) FROM generate_series($from, $to) n") }

emit('orders.paid', 1, 1);
ok(wait_for_value($node, q{SELECT topic FROM outbox_internal.side_topic WHERE error_code ~ 'UNKNOWN'}, 'orders.paid', 60), 'one cannot be made, and leaves its lane');
foreach my $topic (qw(new1 new2))
{
	emit($topic, 1, 2);
	emit($topic, 3, 4);
	ok(wait_until(sub { (eval { $kafka->count($topic) } // 0) == 4 }, 90), "$topic is made, and has its events");
	is(join(' | ', @{ $kafka->payloads($topic) }), 'k 1 | k 2 | k 3 | k 4', 'in order, once');
}
ok(wait_for_value($node, q{SELECT string_agg(topic, ' ') FROM outbox_internal.side_topic}, 'orders.paid', 60), 'and only the other one is away');
no_server_crashed($node);
done_testing();
