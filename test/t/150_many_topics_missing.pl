# Two Kafka topics missing at the same moment, one missing and one forbidden, eighteen that never come: the others of the
# route flow, each in trouble has left its lane and says why, and each heals by itself, whatever the others do.
# matrix: D6 D7 D19 R1
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start(Outbox::Kafka::authorizer());
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
# One event of each, in one transaction.
sub emit_each { my (@topics) = @_; sql('BEGIN; ' . join('', map { "SELECT outbox.emit('$_', 'k', 'x', '{}');" } @topics) . 'COMMIT'); return }
sub holds { my ($count, $seconds, @topics) = @_; return wait_until(sub { !grep { $kafka->count($_) < $count } @topics }, $seconds) }
my $away = q{SELECT string_agg(topic, ' ' ORDER BY topic) FROM outbox_internal.side_topic};

# --- the first day on a cluster that makes no topics ---------------------------------------------------------------------
$kafka->create_topic($_, 1) foreach qw(good denied);
$kafka->deny_topic('denied');
kafka_route($node, $kafka, 'topics', topic => q('{aggregate_type}'));
emit_each(qw(order customer good));
ok(holds(1, 40, 'good'), 'two topics are missing: the third of the transaction gets its event');
ok(wait_for_value($node, $away, 'customer order', 40), 'both have left the lane');
is(sql(q{SELECT count(*) FROM outbox_internal.side_topic WHERE error_class = 'topic' AND error_code ~ 'UNKNOWN'}), '2', 'with the reason');
emit_each(qw(denied invoice good));
ok(holds(2, 40, 'good'), 'one more missing, and one forbidden: it flows');
ok(wait_for_value($node, $away, 'customer denied invoice order', 40), 'they have left too');
ok(wait_for_value($node, q{SELECT state FROM outbox.lag WHERE route = 'topics' AND lane = 0 LIMIT 1}, 'idle'), 'and the lane is well');
$kafka->create_topic($_, 1) foreach qw(order customer);
ok(holds(1, 60, qw(order customer)), 'both made: both get their event');
$kafka->create_topic('invoice', 1);
$kafka->allow_topic('denied');
ok(holds(1, 60, qw(invoice denied)), 'and so do the others');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.side_lane', '0', 60), 'all have rejoined');

# --- many that never come -------------------------------------------------------------------------------------------------
my @never = map { "never$_" } 1 .. 18;
emit_each(@never, 'good');
ok(holds(3, 60, 'good'), 'eighteen missing at once: the healthy one flows');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.side_topic', '18', 60), 'each has a side lane');
$kafka->delete_topic('good');
emit_each('good');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.side_topic', '19', 60), 'one more is deleted');
emit_each('order');
ok(holds(2, 30, 'order'), 'another flows');
$kafka->create_topic('good', 1);
my $made = time;
ok(holds(1, 60, 'good'), sprintf 'made again, it gets its event after %.1f s', time - $made);
emit_each('good', @never);
ok(holds(2, 30, 'good'), 'and goes on, with eighteen away');

# --- rights taken away from several at one moment, and given back ---------------------------------------------------------
my @denied = qw(order customer invoice);
my %had = map { $_ => $kafka->count($_) } @denied, 'good';
$kafka->topic('deny', $_) foreach @denied;
foreach my $n (1 .. 20) { sql('BEGIN; ' . join('', map { "SELECT outbox.emit_text('$_', 'k$_', 'counted', 'k$_ $n');" } @denied, 'good') . 'COMMIT') }
ok(wait_until(sub { $kafka->count('good') == $had{good} + 20 }, 30), 'three topics are forbidden at one moment: another one flows');
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.side_topic WHERE error_code = 'TOPIC_AUTHORIZATION_FAILED'}, '3', 40), 'each of the three has left its lane');
$kafka->allow_topic($_) foreach @denied;
ok(wait_until(sub { !grep { $kafka->count($_) < $had{$_} + 20 } @denied }, 60), 'allowed again, all of it arrives');
is(by_key($kafka->payloads($_))->{"k$_"}, join(' ', 1 .. 20), "$_: in order, once") foreach @denied;
is(sql(q{SELECT count(*) FROM outbox_internal.parked WHERE topic !~ '^never'}), '0', 'nothing of a healthy topic is parked');
is(sql(q{SELECT count(*) FROM outbox.dead_letter}), '0', 'and nothing is dead');
no_server_crashed($node);
done_testing();
