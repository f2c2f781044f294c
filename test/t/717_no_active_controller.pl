# Two of three nodes are away, and the controllers have no quorum: the broker that is left leads a topic, and gives a producer that is new no id. The topic's trouble says that, and so does
# test_server(), where both named what was well; once the nodes are back the event arrives, soon.
# ring: long
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
my $kafka = Outbox::Kafka->start_cluster(3, 'default.replication.factor=1', 'min.insync.replicas=1');
$kafka->create_topic('one', 1);
my $leader = $kafka->leader('one', 0);
my @others = grep { $_ != $leader } @{ $kafka->{nodes} };
$_->kill9 foreach @others;
my $node = new_node();
kafka_route($node, $kafka, 'kafka', topic => "'{aggregate_type}'");
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

sql(q(SELECT outbox.emit_text('one', '1', 'e', 'x')));
my $why = qr{the brokers gave no producer id, without which nothing is sent \(\Q$leader->{bootstrap}\E/[^()]+\): is there an active controller\?};
ok(wait_until(sub { sql(q(SELECT error_code FROM outbox.lag WHERE topic = 'one')) eq 'STALLED' }, 60), 'the topic is in trouble');
like(sql(q(SELECT error_message FROM outbox.lag WHERE topic = 'one')), qr/^topic "one" takes nothing though the cluster answers: $why$/, 'and what is wrong is told');
foreach my $topic (q(, 'one'), '')
{
	like(sql(qq(SELECT ok, error_class, error_code, detail FROM outbox.test_server('kafka'$topic) AS t WHERE "check" = 'producer id')), qr/^f\|destination\|NO_PRODUCER_ID\|.*$why/,
		"test_server('kafka'$topic) tells it");
}
is(sql(q(SELECT ok FROM outbox.test_server('kafka', 'one') WHERE "check" = 'topic')), 't', 'and finds the topic well');
$_->restart foreach @others;
ok(wait_idle($node, 90), 'the event arrives when they are back');
is($kafka->count('one'), 1, 'once');
is(sql(q(SELECT count(*) FROM outbox.test_server('kafka', 'one', timeout => '10 s') WHERE NOT ok OR "check" = 'producer id')), '0', 'and test_server() has nothing to say');
no_server_crashed($node);
done_testing();
