# Events one behind the other that kill the sink's process whenever they are sent, and nothing between them that would show
# that it lives: each becomes a dead letter, what is behind them arrives, later events of their keys go on.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "restart_after_crash = off\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('s'), backoff_cap => q('2 s'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

sql(q{SELECT outbox.emit_text('t', 'k', 'e', 'first')});
ok(wait_idle($node), 'delivered');
Outbox::Faults::poison('OUTBOX-POISON', 'abort');
sql(q{SELECT outbox.emit_text('t', 'p' || i, 'e', 'OUTBOX-POISON ' || i) FROM generate_series(1, 4) i;
	SELECT outbox.emit_text('t', 'p3', 'e', 'behind it'); SELECT outbox.emit_text('t', 'k', 'e', 'last')});
ok(wait_for_value($node, q{SELECT string_agg(format('%s %s %s', aggregate_id, error_class, error_code), ',' ORDER BY aggregate_id) FROM outbox.dead_letter},
		join(',', map { "p$_ message SINK_DIED" } 1 .. 4), 180), 'each is a dead letter')
  or diag(sql('SELECT * FROM outbox.lag') . "\n" . sql('SELECT aggregate_id, state, error_code FROM outbox.parked_event'));
ok(wait_idle($node, 60), 'all else is delivered');
is(join(' ', sort @{ $redis->column('s', 'payload') }), 'behind it first last', 'once each');
Outbox::Faults::disarm('poison');
no_server_crashed($node, 'no process of the server crashed');
$node->stop;
done_testing();
