# A Redis that has lost what it had puts its lane back, and the worker is told to end just when that is committed: the next one
# goes on from there, as the audit says.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start(conf => ['appendonly no']);
redis_route($node, $redis, 'r', topic => q('r'), start => q('earliest'), aggregate_types => q('{seldom}'), server_options => q(, timeout '5000'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub emit { my ($type, $from, $to) = @_; return sql("SELECT outbox.emit_text('$type', 'k', 'e', '$type ' || i) FROM generate_series($from, $to) i") }
emit('seldom', 1, 10);
ok(wait_idle($node), 'delivered');
# The lane moves on without delivering anything: its position is saved when it ends.
emit('other', 1, 10);
ok(wait_idle($node), 'what it does not want is behind it');

Outbox::Faults::arm('rewind.after', 'wait');
$redis->kill9;
$redis->restart;
ok(Outbox::Faults::await_waiting('rewind.after'), 'the lane is put back, in its table');
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'outbox relay'});
Outbox::Faults::release('rewind.after');
ok(wait_until(sub { $redis->xlen('r') >= 10 }, 30), 'the next worker sends what was lost');
emit('seldom', 11, 11);
ok(wait_until(sub { $redis->xlen('r') >= 11 }, 30), 'and what comes after');
is_deeply($redis->column('r', 'payload'), [ map { "seldom $_" } 1 .. 11 ], 'in order, once');
no_server_crashed($node);
done_testing();
