# Ever new Kafka topics that do not exist, where the broker makes none: the first costs the five seconds in which one may still come
# up, the others have left their lane before that, the healthy topic flows, and each made later gets its events in order, once.
# ring: long
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start;
$kafka->create_topic('good', 1);
kafka_route($node, $kafka, 'topics', topic => q('{aggregate_type}'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub emit { my ($topic, $from, $to) = @_; sql("SELECT outbox.emit_text('$_', 'k', 'counted', 'k ' || n) FROM generate_series($from, $to) n") foreach $topic, 'good'; return }
sub left { my ($topic) = @_; return wait_for_value($node, "SELECT count(*) FROM outbox_internal.side_topic WHERE topic = '$topic' AND error_code ~ 'UNKNOWN'", '1', 60) }

emit('never0', 1, 2);
ok(left('never0'), 'a topic is missing, and leaves its lane');
my @more = map { "never$_" } 1 .. 6;
my $start = time;
foreach my $topic (@more)
{
	emit($topic, 1, 2);
	left($topic) or fail("$topic has left its lane");
}
my $took = time - $start;
cmp_ok($took, '<', 20, sprintf 'six new ones, one after the other, have left after %.1f s', $took);
ok(wait_until(sub { $kafka->count('good') == 14 }, 30), 'the healthy one has all of its events');
emit($_, 3, 4) foreach @more;
ok(wait_until(sub { $kafka->count('good') == 26 }, 30), 'and goes on');
$kafka->create_topic($_, 1) foreach 'never0', @more;
ok(wait_until(sub { !grep { $kafka->count($_) < 4 } @more }, 90), 'made at last, they get theirs');
is(join(' | ', @{ $kafka->payloads($_) }), 'k 1 | k 2 | k 3 | k 4', "$_: in order, once") foreach @more;
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.side_lane', '0', 90), 'and have rejoined');
emit('never7', 1, 2);
$kafka->create_topic('never7', 1);
ok(wait_until(sub { $kafka->count('never7') == 2 }, 90), 'one that is made just then gets its events, too');
is(sql('SELECT count(*) FROM outbox.dead_letter'), '0', 'none is dead');
no_server_crashed($node);
done_testing();
