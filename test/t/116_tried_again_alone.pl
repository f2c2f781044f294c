# Kafka refuses an event with an error that may pass: a compacted topic gets one without a key. It is tried again alone,
# with growing pauses, up to the route's max_attempts; its neighbours flow. It goes by itself when the topic is mended, and
# is a dead letter if nothing is repaired.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start;
$kafka->create_topic('compacted', 1, 'cleanup.policy=compact');
kafka_route($node, $kafka, 'kafka', topic => q('compacted'), max_attempts => 100, backoff_base => q('500 ms'), backoff_cap => q('2 s'));

my @keys = qw(a b);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub keyless { my ($text) = @_; return sql("SELECT outbox.emit_text('order', NULL::text, 'keyless', '$text')") }
sub arrived { return by_key([ map { $_->{payload} } @{ $kafka->records('compacted') } ]) }
sub of_keys { my ($to, @other) = @_; return { (map { $_ => join ' ', 1 .. $to } @keys), @other } }

emit_counted($node, 'order', \@keys, 1, 20);
my $mended = keyless('mended');
emit_counted($node, 'order', \@keys, 21, 40);
ok(wait_for_value($node, "SELECT state, error_class, error_code FROM outbox.status('$mended')", 'retrying|solo-retry|INVALID_RECORD', 30), 'it is being retried, with the reason');
ok(wait_until(sub { $kafka->count('compacted') == 80 }, 30), 'all others are delivered');
is_deeply(arrived(), of_keys(40), 'in order, nothing twice');
ok(wait_for_value($node, "SELECT attempts >= 3 AND next_try BETWEEN now() AND now() + interval '2 s' FROM outbox.status('$mended')", 't', 30), 'it has been tried again and again, and will be once more');
emit_counted($node, 'order', \@keys, 41, 50);
ok(wait_until(sub { $kafka->count('compacted') == 100 }, 30), 'meanwhile later ones flow');
is(sql('SELECT count(*) FROM outbox.dead_letter'), '0', 'it is no dead letter');
is(sql(q{SELECT state, error_class IS NULL FROM outbox.destination WHERE server = 'kafka'}), 'closed|t', 'and no trouble of the destination');

$kafka->alter_topic('compacted', 'cleanup.policy=delete');
ok(wait_for_value($node, "SELECT state FROM outbox.status('$mended')", 'delivered', 30), 'the topic is mended: it goes by itself');
is_deeply(arrived(), of_keys(50, other => 'mended'), 'once');
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing is parked any more');

$kafka->alter_topic('compacted', 'cleanup.policy=compact');
sql(q{SELECT outbox.alter_route('kafka', max_attempts => 3)});
my $hopeless = keyless('hopeless');
ok(wait_for_value($node, q{SELECT attempts, error_class, error_code FROM outbox.dead_letter}, '3|solo-retry|INVALID_RECORD', 30), 'after max_attempts it is a dead letter');
is(sql("SELECT state FROM outbox.status('$hopeless')"), 'dead', 'outbox.status says so');
emit_counted($node, 'order', \@keys, 51, 60);
ok(wait_idle($node, 30), 'idle');
is_deeply(arrived(), of_keys(60, other => 'mended'), 'everything else has arrived, in order, nothing twice');
no_server_crashed($node);
done_testing();
