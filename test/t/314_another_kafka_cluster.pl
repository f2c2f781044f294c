# A Kafka cluster is replaced by another one at the same address: an empty one, which gives its producers the same numbers
# once more. Whoever goes on as a producer of the old one may be taken there for another of that number, whose record was
# the first of its partition, too: then the broker acknowledges a record as one that it had already, and it is nowhere.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Kafka;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start;
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql(qq{CREATE SERVER k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{bootstrap}'); SELECT outbox.create_route('r', server => 'k', topic => 'first')});
$kafka->create_topic('first', 1);
sql(q{SELECT outbox.emit_text('t', 1, 'e', 'to the first cluster')});
ok(wait_idle($node), 'delivered to the first cluster');

# Another one.
my ($port) = $kafka->{bootstrap} =~ /:(\d+)$/;
$kafka->kill9;
ok(wait_for_value($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'}, 1), 'the relay worker goes on');
$ENV{OUTBOX_KAFKA_CLUSTER} = 'c2Vjb25kLXRlc3Qta2Fma2';
my $second = Outbox::Kafka->start_at($port);
my @topics = map { "topic$_" } 1 .. 8;
$second->create_topic($_, 1) foreach 'first', @topics;

# Others have been there: producers with the first numbers that it gives, a record of each in a topic of its own.
foreach my $topic (@topics)
{
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'kcat', '-P', '-q', '-b', $second->{bootstrap}, '-t', $topic, '-p', 0, '-X', 'enable.idempotence=true' ], '<', \'of another', '>', \$out, '2>', \$err) or die "kcat: $err";
}
sql(qq{SELECT outbox.emit_text('t', n, 'e', 'to the second cluster', topic => 'topic' || n) FROM generate_series(1, 8) n});
ok(wait_idle($node), 'the events are delivered, it says');
foreach my $topic (@topics)
{
	is_deeply([ sort @{ $second->payloads($topic) } ], [ 'of another', 'to the second cluster' ], "and is, to $topic");
}
no_server_crashed($node);
done_testing();
