# Three Kafka nodes, a topic with one partition on each and no replicas, and a node is killed: its partition has no leader for
# as long as that lasts. The other two go on, also where each event has a key of its own; what belongs to the dead one is
# parked, the topic is told as in trouble, and all is delivered, in order for each key, when the node is back.
# matrix: D15
# ring: long
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start_cluster(3, 'default.replication.factor=1', 'min.insync.replicas=1');
$kafka->create_topic('t', 3);
kafka_route($node, $kafka, 'kafka', topic => q('t'));
my $emitted = 0;
# Two of three events have a key of their own, the others one of seven.
sub emit
{
	my ($count) = @_;
	my $from = $emitted + 1;
	$emitted += $count;
	$node->safe_psql('postgres', "SELECT outbox.emit_text('a', CASE WHEN n % 3 = 0 THEN 'k' || n % 7 ELSE 'own' || n END, 'e', n::text) FROM generate_series($from, $emitted) n");
	return;
}
emit(30);
ok(wait_idle($node, 60), 'three partitions take events');
my $dead = $kafka->leader('t', 1);
$dead->kill9;
emit(300);
ok(wait_for_value($node, q{SELECT count(*) > 0 FROM outbox_internal.parked WHERE error_code = 'PARTITION_STALLED'}, 't', 120), 'what belongs to the dead partition is parked');
emit(300);
ok(wait_for_value($node, 'SELECT max(pending) FROM outbox.lag', '0', 120), 'and no other event waits');
emit(300);
ok(wait_for_value($node, 'SELECT max(pending) FROM outbox.lag', '0', 60), 'nor any that comes later');
my $parked = $node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked');
ok($parked > 100 && $parked < 600, "about a third is parked: $parked");
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.side_lane'), '0', 'the topic is with its lane');
is($node->safe_psql('postgres', q{SELECT count(*) FROM outbox_internal.parked WHERE attempts > 0}), '0', 'and no event is charged');
ok(wait_for_value($node, q{SELECT DISTINCT error_code FROM outbox.lag WHERE topic = 't' OR error_code IS NOT NULL}, 'PARTITION_STALLED', 60), 'the topic is told as in trouble');
my $hint = qr/[Bb]ring.* back.*kafka-leader-election\.sh --election-type unclean/s;
like($node->safe_psql('postgres', q{SELECT string_agg(hint, ' ') FROM outbox.doctor() WHERE detail ~ 'PARTITION_STALLED'}), $hint, 'doctor() says how it gets a leader again');
# It is told there when it has lasted for a second.
wait_until(sub { slurp_file($node->logfile) =~ /outbox: topic "t" of route "kafka" is in trouble/ }, 60);
like(slurp_file($node->logfile), qr/WARNING:  outbox: topic "t" of route "kafka" is in trouble: [^\n]*have no leader[^\n]*\n.*PARTITION_STALLED.*\n.*HINT:  $hint/, 'and so does the log');
like($node->safe_psql('postgres', q{SELECT hint FROM outbox.test_server('kafka', 't') WHERE error_code = 'LEADER_NOT_AVAILABLE'}), $hint, 'and so does test_server()');
$dead->restart;
ok(wait_idle($node, 180), 'the node is back, and all is delivered');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing is parked any more');
my (%seen, %last);
my @wrong;
foreach my $record (@{ $kafka->records('t') })
{
	next if $seen{ $record->{payload} }++;
	push @wrong, "$record->{key}: $record->{payload}" if ($last{ $record->{key} } // 0) > $record->{payload};
	$last{ $record->{key} } = $record->{payload};
}
is(scalar keys %seen, $emitted, 'each event is there');
is("@wrong", '', 'in order for each key');
no_server_crashed($node);
done_testing();
