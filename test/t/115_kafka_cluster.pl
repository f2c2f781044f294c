# Three Kafka nodes, three replicas, two of which must have a record: leaders killed with SIGKILL under a load, each time
# back on its data, then a rolling restart. Nothing lost, first occurrences in order per key, nothing parked, and no
# trouble left at the end.
# matrix: D2
# ring: long
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start_cluster(3);
$kafka->create_topic('load', 3);
Outbox::Ledger::install($node);
kafka_route($node, $kafka, 'kafka', topic => q('load'));

# While a partition has no leader nobody can count.
sub flows
{
	my $before;
	return wait_until(sub { my $now = eval { $kafka->count('load') } // return 0; $before //= $now; return $now > $before + 200 }, 60);
}
sub healed { return wait_until(sub { eval { $kafka->in_sync('load') } }, 60) }

my $load = Outbox::Ledger::start_load($node, seconds => 300, clients => 2, rate => 20);
ok(flows(), 'events flow');
foreach my $partition (0, 1)
{
	my $leader = $kafka->leader('load', $partition);
	$leader->kill9;
	ok(wait_until(sub { my $new = eval { $kafka->leader('load', $partition) }; $new && $new != $leader }, 60), "the leader of partition $partition is killed, another one leads");
	ok(flows(), 'events flow without it');
	$leader->restart;
	ok(healed(), 'it is back, and has caught up');
}
foreach my $member (@{ $kafka->{nodes} })
{
	$member->stop;
	$member->restart;
	ok(healed(), 'rolling restart: one more is back, and has caught up');
}
ok(flows(), 'events flow');
ok(Outbox::Ledger::end_load($load), 'no session noticed');
ok(wait_idle($node, 60), 'everything was delivered');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing was parked');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.side_lane', '0', 60), 'no topic is on its own');
ok(wait_for_value($node, q{SELECT state, error_class IS NULL, deaths FROM outbox.destination WHERE server = 'kafka'}, 'closed|t|0', 20), 'no trouble is left, and no sink process died');
Outbox::Ledger::check($node, 'Kafka', $kafka->payloads('load'), duplicates => 1);
no_server_crashed($node);
done_testing();
