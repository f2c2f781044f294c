# A Kafka cluster is replaced at its address by an empty one, which gives its producers the same numbers once more; with an
# id of its own, and with the same, as the official image has one for all who choose none. Whoever goes on as a producer of
# the old one may be taken there for another of that number, whose record was the first of its partition, too: then the
# broker acknowledges a record as one that it had already, and it is nowhere.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Kafka;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();

# @ids: of the first cluster and of the second.
sub replace
{
	my ($which, @ids) = @_;
	my $node = new_node(name => $which =~ tr{ }{_}r);
	$ENV{OUTBOX_KAFKA_CLUSTER} = $ids[0];
	my $first = Outbox::Kafka->start;
	my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
	$sql->(qq{CREATE SERVER k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$first->{bootstrap}'); SELECT outbox.create_route('r', server => 'k', topic => 'first')});
	$first->create_topic('first', 1);
	$sql->(q{SELECT outbox.emit_text('t', 1, 'e', 'to the first cluster')});
	ok(wait_idle($node), "$which: delivered to the first cluster");

	my ($port) = $first->{bootstrap} =~ /:(\d+)$/;
	$first->kill9;
	is($sql->(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'}), 1, "$which: the relay worker goes on");
	$ENV{OUTBOX_KAFKA_CLUSTER} = $ids[1];
	my $second = Outbox::Kafka->start_at($port);
	my @topics = map { "topic$_" } 1 .. 8;
	$second->create_topic($_, 1) foreach 'first', @topics;
	# Others have been there: producers with the first numbers that it gives, a record of each in a topic of its own.
	foreach my $topic (@topics)
	{
		my ($out, $err) = ('', '');
		IPC::Run::run([ 'kcat', '-P', '-q', '-b', $second->{bootstrap}, '-t', $topic, '-p', 0, '-X', 'enable.idempotence=true' ], '<', \'of another', '>', \$out, '2>', \$err) or die "kcat: $err";
	}
	$sql->(qq{SELECT outbox.emit_text('t', n, 'e', 'of ours', topic => 'topic' || n) FROM generate_series(1, 8) n});
	ok(wait_idle($node), "$which: the events are delivered, it says");
	is_deeply([ sort @{ $second->payloads($_) } ], [ 'of another', 'of ours' ], "$which: and is, to $_") foreach @topics;
	is(PostgreSQL::Test::Utils::slurp_file($node->logfile) =~ /"k" is used, but at its addresses there is another cluster/ ? 1 : 0, $ids[0] eq $ids[1] ? 0 : 1,
		"$which: and the log tells of another cluster");
	no_server_crashed($node);
	$node->stop;
	$second->kill9;
	return;
}
replace('another id', 'Zmlyc3QtdGVzdC1rYWZrYS', 'c2Vjb25kLXRlc3Qta2Fma2');
replace('the same id', 'Zmlyc3QtdGVzdC1rYWZrYS', 'Zmlyc3QtdGVzdC1rYWZrYS');
done_testing();
