# A topic that is missing and that Kafka cannot make, since one stands beside it whose name differs in dots and underscores only:
# outbox.test_server() names that one, and does not advise to create the other; of one that is only missing it does.
# matrix: A14
# ring: long
use strict;
use warnings;

use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
my $kafka = Outbox::Kafka->start;
my $node = new_node();
$kafka->create_topic('orders_paid.v1', 1);
$node->safe_psql('postgres', qq{CREATE SERVER kafka FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{bootstrap}')});
sub look
{
	my ($topic) = @_;
	return $node->safe_psql('postgres', qq{SELECT error_class || ' ' || error_code || '|' || detail || '|' || hint FROM outbox.test_server('kafka', '$topic', timeout => '30 s') WHERE "check" = 'topic'});
}
like(look('orders.paid_v1'), qr/^topic _?UNKNOWN_TOPIC\w*\|topic "orders.paid_v1" does not exist, and cannot be made beside topic "orders_paid.v1"\|Kafka makes no two topics .*: give the route another topic\.$/,
	'it says what stands in its place');
like(look($_), qr/does not exist\|Create it; /, "$_ is only missing") foreach qw(orders.sent ordersxpaid.v1 plain);
$node->stop;
done_testing();
