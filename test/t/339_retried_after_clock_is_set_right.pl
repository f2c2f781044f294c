# The wall clock is ten days ahead until it is believed, and is then set right, while the server runs or while it is
# down: what is being tried again goes on, and is not tried ten days later; what is scheduled keeps its time.
# matrix: B13 R4
use strict;
use warnings;

use Outbox::Clock;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
Outbox::Clock::prepare(PostgreSQL::Test::Utils::tempdir());
my $kafka = Outbox::Kafka->start;
# Refuses what has no key.
$kafka->create_topic('compacted', 1, 'cleanup.policy=compact');
my $node;
Outbox::Clock::with(sub { $node = new_node() });
Outbox::Clock::believe_after(1);
kafka_route($node, $kafka, 'kafka', topic => q('compacted'), max_attempts => 1000, backoff_base => q('200 ms'), backoff_cap => q('2 s'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
my $soon = time + 3600;
my $next = sub { return "SELECT due_at > to_timestamp($soon) FROM outbox_internal.parked WHERE id = '$_[0]'" };

my $scheduled = sql(q{SELECT outbox.emit('order', 'k', 'scheduled', '{}', deliver_at => now() + interval '30 days')});
my $when = "SELECT state, due_at FROM outbox_internal.parked WHERE id = '$scheduled'";
ok(wait_for_value($node, "SELECT state FROM outbox.status('$scheduled')", 'scheduled'), 'one is scheduled');
my $due = sql($when);
my $event = sql(q{SELECT outbox.emit_text('order', NULL::text, 'keyless', 'x')});
ok(wait_for_value($node, "SELECT state FROM outbox.status('$event')", 'retrying'), 'another is refused, and tried again');

Outbox::Clock::set(864_000);
ok(wait_for_value($node, $next->($event), 't', 120), 'the clock is ahead and believed: so is the next try');
Outbox::Clock::set(0);
ok(wait_for_value($node, $next->($event), 'f', 120), 'set right: it is tried again now');
is(sql($when), $due, 'what is scheduled keeps its time');

Outbox::Clock::set(864_000);
ok(wait_for_value($node, $next->($event), 't', 120), 'ahead and believed again');
$node->stop;
Outbox::Clock::set(0);
Outbox::Clock::with(sub { $node->start });
ok(wait_for_value($node, $next->($event), 'f', 120), 'set right while the server was down: it is tried again now');
is(sql($when), $due, 'what is scheduled keeps its time');
$kafka->alter_topic('compacted', 'cleanup.policy=delete');
ok(wait_for_value($node, "SELECT state FROM outbox.status('$event')", 'delivered', 120), 'and is delivered when it is taken');
$node->stop;
no_server_crashed($node);
done_testing();
