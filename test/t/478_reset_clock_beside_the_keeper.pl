# The keeper is about to move the ceiling of a clock that is days ahead while reset_clock() puts that back: the next start knows nothing of the old time.
# matrix: R4
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
sub sql { return $node->safe_psql('postgres', @_) }
sql(q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', 'n'); SELECT outbox.emit('t', 'k', 'first', '1')));
ok(wait_idle($node), 'delivered');
sql(q(SELECT setval('outbox_internal.clock_ceiling', (extract(epoch FROM now() + interval '3 days') * 1000000)::bigint)));
$node->stop('immediate');
$node->start;
sql(q(SELECT outbox.emit('t', 'k', 'late', '1')));
ok(wait_idle($node), 'delivered, too');
my $ahead = q(SELECT last_value > extract(epoch FROM now() + interval '1 hour') * 1000000 FROM outbox_internal.clock_ceiling);
is(sql($ahead), 't', 'the clock is ahead');

my $session = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$session->query_safe('BEGIN; SET LOCAL client_min_messages = warning; SELECT outbox.reset_clock()'); # not what it says of consumers
Outbox::Faults::arm('ceiling.keep', 'wait');
ok(Outbox::Faults::await_waiting('ceiling.keep', 60), 'the keeper has read the clock, and is about to move the ceiling');
Outbox::Faults::arm('keeper.cycle', 'wait');
$session->query_safe('COMMIT');
$session->quit;
Outbox::Faults::release('ceiling.keep');
ok(Outbox::Faults::await_waiting('keeper.cycle', 60), 'it has done so');
sql(q(SELECT outbox.emit('t', 'k', 'now', '1')));
is(sql($ahead), 'f', 'the ceiling has gone back with the clock');
Outbox::Faults::release('keeper.cycle');
$node->stop('immediate');
$node->start;
is(sql(q(SELECT outbox.emit('t', 'k', 'next', '1') IS NOT NULL)), 't', 'an event after a crash');
is(sql(q(SELECT max(created_at) FILTER (WHERE event_type = 'next') < now() + interval '1 hour' FROM outbox_internal.log)), 't', 'has the time of now');
ok(wait_idle($node), 'and is delivered');
no_server_crashed($node);
done_testing();
