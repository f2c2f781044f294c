# Topics that Kafka keeps for itself take no event of anybody, whether they are there or not, and nobody can make them: such
# a name is none. Who asks for one is told at once, and an event that a template sends there is a dead letter.
# matrix: H2
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
my $kafka = Outbox::Kafka->start;
my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub refused { my ($query) = @_; my (undef, undef, $error) = $node->psql('postgres', $query); return $error }
my @own = qw(cluster_metadata consumer_offsets share_group_state transaction_state);
my $types = "'{" . join(',', @own, 'neighbour') . "}'";

$kafka->create_topic('__neighbour', 1);
kafka_route($node, $kafka, 'own', topic => q('__{aggregate_type}'), aggregate_types => $types);
sql("SELECT outbox.emit_text(t, 'k', 'e', 'k ' || i) FROM generate_series(1, 5) i, unnest($types\::text[]) t");
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'dead'}, 20), 'each of their events is a dead letter');
is(sql(q{SELECT aggregate_type, error_class, error_code, error_message, count(*) FROM outbox_internal.parked GROUP BY 1, 2, 3, 4 ORDER BY 1}),
	join("\n", map { "$_|message|INVALID_TOPIC|topic name is one that Kafka keeps for itself|5" } @own), 'with the reason');
ok(wait_idle($node), 'nothing waits for them');
is_deeply($kafka->payloads('__neighbour'), [ map { "k $_" } 1 .. 5 ], 'a topic of another name that begins so gets its events, in order, once');

foreach my $topic (map { "__$_" } @own)
{
	is(sql(qq{SELECT "check", error_class, error_code, detail FROM outbox.test_server('own', '$topic', timeout => '30 s') WHERE NOT ok}),
		'topic|message|INVALID_TOPIC|topic name is one that Kafka keeps for itself', "test_server() with $topic");
	like(refused("SELECT outbox.emit_text('neighbour', 'k', 'e', 'x', topic => '$topic')"), qr/invalid topic name.*keeps for itself/s, "emit() with $topic");
	like(refused("SELECT outbox.create_route('r', server => 'own', topic => '$topic')"), qr/invalid topic template.*keeps for itself/s, "create_route() with $topic");
}
no_server_crashed($node);
done_testing();
