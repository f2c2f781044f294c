# Kafka topics that are deleted, and that may not be written to any more: the other topics of the route flow meanwhile,
# nothing piles up in outbox_internal.parked, what was read of them survives a crash, and they heal and rejoin by themselves.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start(Outbox::Kafka::authorizer());
my @topics = qw(well gone denied);
$kafka->create_topic($_, 2) foreach @topics;
kafka_route($node, $kafka, 'topics', topic => q('{aggregate_type}'));
my @keys = map { "k$_" } 1 .. 8;

sub arrived { my ($topic) = @_; return by_key($kafka->payloads($topic)) }
sub all { my ($from, $to) = @_; return { map { $_ => join ' ', $from .. $to } @keys } }
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
# First occurrences only: after a crash what was in flight may come twice.
sub first_arrived
{
	my ($topic) = @_;
	my %seen;
	return by_key([ grep { !$seen{$_}++ } @{ $kafka->payloads($topic) } ]);
}

emit_counted($node, $_, \@keys, 1, 10) foreach @topics;
ok(wait_idle($node, 60), 'all three topics get events');

$kafka->delete_topic('gone');
$kafka->deny_topic('denied');
emit_counted($node, $_, \@keys, 11, 40) foreach reverse @topics;
ok(wait_until(sub { $kafka->count('well') == 320 }, 60), 'the healthy topic of the same route flows');
ok(wait_for_value($node, q{SELECT string_agg(topic || ' ' || error_class, ', ' ORDER BY topic) FROM outbox_internal.side_topic}, 'denied topic, gone topic', 60),
	'the others have left the lane');
like(sql(q{SELECT error_code FROM outbox_internal.side_topic WHERE topic = 'denied'}), qr/AUTHORIZATION/, 'with the reason');
like(sql(q{SELECT string_agg(error_code, ' ') FROM outbox_internal.side_topic WHERE topic = 'gone'}), qr/UNKNOWN/, 'each its own');
emit_counted($node, $_, \@keys, 41, 60) foreach @topics;
ok(wait_until(sub { $kafka->count('well') == 480 }, 30), 'and goes on flowing');
is_deeply(arrived('well'), all(1, 60), 'in order, nothing twice');
cmp_ok(sql(q{SELECT count(*) FROM outbox_internal.parked}), '<', 240, 'the parked table holds only what was in flight');
# Progress is noted a moment after the events are there.
ok(wait_for_value($node, 'SELECT sum(pending) FROM outbox.lag', '800', 20), 'outbox.lag counts what waits');

# A crash in the middle of it.
$node->stop('immediate');
$node->start;
emit_counted($node, $_, \@keys, 61, 70) foreach @topics;
ok(wait_until(sub { (first_arrived('well')->{k1} // '') eq join ' ', 1 .. 70 }, 60), 'after a crash the healthy one flows again');
is(sql(q{SELECT string_agg(topic, ', ' ORDER BY topic) FROM outbox_internal.side_topic}), 'denied, gone', 'and the others are still on their own');

$kafka->allow_topic('denied');
ok(wait_until(sub { (first_arrived('denied')->{k8} // '') eq join ' ', 1 .. 70 }, 60), 'allowed again, the topic gets its events');
$kafka->create_topic('gone', 2);
ok(wait_idle($node, 90), 'made again, the other one too');
is_deeply(first_arrived('denied'), all(1, 70), 'denied: complete and in order');
is_deeply(first_arrived('gone'), all(11, 70), 'gone: complete and in order from where it was deleted');
is_deeply(first_arrived('well'), all(1, 70), 'well: complete and in order');
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.side_lane}, '0', 60), 'both have rejoined their lane');
is(sql(q{SELECT count(*) FROM outbox_internal.parked}), '0', 'and nothing is parked');

my %before = map { $_ => $kafka->count($_) } @topics;
emit_counted($node, $_, \@keys, 71, 80) foreach @topics;
ok(wait_idle($node, 60), 'idle');
is($kafka->count($_) - $before{$_}, 80, "$_: flows as before, nothing twice") foreach @topics;
is_deeply(first_arrived($_), all($_ eq 'gone' ? 11 : 1, 80), "$_: in order") foreach @topics;
no_server_crashed($node);
done_testing();
