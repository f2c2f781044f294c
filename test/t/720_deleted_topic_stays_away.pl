# Brokers that make topics by themselves make a deleted one again, empty and with their own number of partitions, as long as a producer asks about all that it has sent to, paused or not
# (here every three seconds, else every five minutes). With the steps of docs/routes.md it stays away: paused, then any option of the server changed, then deleted.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
my $kafka = Outbox::Kafka->start('auto.create.topics.enable=true', 'num.partitions=1');
my $node = new_node();
kafka_route($node, $kafka, 'kafka', topic => "'{aggregate_type}'", server_options => q(, "topic.metadata.refresh.interval.ms" '3000'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub partitions { my $out = `kcat -b $kafka->{bootstrap} -L 2>&1`; return $out =~ /topic "old" with (\d+) part/ ? $1 : 0 }
sub emit { sql("SELECT outbox.emit_text('$_', '1', 'e', 'x')") foreach @_; return }

emit('old', 'live');
ok(wait_idle($node, 60), 'both topics are in use');
sql(q(SELECT outbox.pause('kafka', topic => 'old', reason => 'topic is recreated')));
my ($sink) = sink_pids($node);
sql(q(ALTER SERVER kafka OPTIONS (ADD "socket.keepalive.enable" 'true')));
ok(wait_until(sub { my @now = sink_pids($node); return @now && !grep { $_ == $sink } @now }, 30), 'the sink begins anew');
emit('old', 'live');
ok(wait_until(sub { $kafka->count('live') == 2 }, 30), 'and sends to the other topic');
$kafka->delete_topic('old');
my $until = time + 8;
my $back = 0;
while (!$back && time < $until)  # in which it would be asked about twice
{
	emit('live');
	$back = partitions();
	select undef, undef, undef, 0.2;
}
is($back, 0, 'the topic stays away');
$kafka->create_topic('old', 3);
is(partitions(), 3, 'and can be made with other partitions');
sql(q(SELECT outbox.resume('kafka', topic => 'old')));
ok(wait_idle($node, 60), 'what was emitted meanwhile is sent');
is($kafka->count('old'), 1, 'to the new topic');
no_server_crashed($node);
done_testing();
