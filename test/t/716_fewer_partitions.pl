# A Kafka topic is deleted and made anew with fewer partitions, by its next event: what had been acknowledged in the others is gone, and that is told.
# A topic that gets more partitions has lost nothing.
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
my $kafka = Outbox::Kafka->start('auto.create.topics.enable=true', 'num.partitions=1');
$kafka->create_topic('t', 12);
$kafka->create_topic('u', 1);
my $node = new_node();
kafka_route($node, $kafka, 'kafka', topic => "'{aggregate_type}'");
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub told { return sql(q(SELECT detail FROM outbox.doctor() WHERE "check" = 'destination' AND status <> 'ok')) }

sub delivered
{
	my ($topic, $key, $count, $what) = @_;
	sql("SELECT count(outbox.emit_text('$topic', $key, 'e', n::text)) FROM generate_series(1, $count) n");
	return ok(wait_idle($node, 60), "delivered $what");
}

delivered('t', "'order'", 100, 'to one of twelve partitions');
delivered('u', 'n::text', 3, 'to a topic');
$kafka->topic('alter', 'u', 4);
is(told(), '', 'there is nothing to tell');
$kafka->delete_topic('t');
delivered('t', "'order'", 1, 'to the topic, which is made anew with one partition');
delivered('u', 'n::text', 20, 'to a topic that has more partitions than it had');
# Its first event may have gone by the sink of its own that a topic in trouble has, which knew nothing of it.
delivered('t', "'order'", 1, 'once more');
ok(wait_until(sub { told() ne '' }, 30), 'doctor() tells of it');
like(told(), qr/^Destination "kafka" works, but OFFSETS_WENT_BACK: topic "t" has lost what it had acknowledged, or was made anew: partition \d+ had acknowledged up to offset 99, and the topic's number of partitions is 1 now$/,
	'what, and where');
ok(wait_until(sub { slurp_file($node->logfile) =~ /WARNING: .*destination "kafka" is used, but topic "t" has lost what it had acknowledged/ }, 30), 'and the log');
delivered('t', 'n::text', 3, 'more');
is(scalar(() = slurp_file($node->logfile) =~ /has lost what it had acknowledged/g), 1, 'once');
no_server_crashed($node);
done_testing();
