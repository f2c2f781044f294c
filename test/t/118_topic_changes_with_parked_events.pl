# The topics of a route get other names while events of a key are parked: later events of the key go on waiting for them,
# and all arrive under the new name in order, across a restart as well. One with a topic of its own keeps it.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.max_payload_size = '4MB'\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('old.{aggregate_type}'), aggregate_types => q('{big}'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub emit { my ($size, $more) = @_; return sql("SELECT outbox.emit_text('big', 'k', 'x', repeat('x', $size)" . ($more // '') . ')') }
sub parked { my ($count, $what) = @_; return ok(wait_until(sub { sql('SELECT count(*) FROM outbox_internal.parked') == $count }, 30), $what) }
sub lengths { return [ map { length $_->{payload} } @{ $redis->entries($_[0]) } ] }

sql(q{SELECT outbox.alter_route('redis', on_failure => 'block')});
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', '1048576');
my $first = emit(2_000_001);
emit(2);
emit(2_000_003, q{, topic => 'own'}); # another topic: another key
parked(3, 'one is refused, one waits, and one of another topic is refused');

sql(q{SELECT outbox.alter_route('redis', topic => 'new.{aggregate_type}')});
emit(4);
parked(4, 'a later event waits for them under the new name, too');
is($redis->xlen('new.big'), 0, 'nothing has overtaken them');
is(sql(q{SELECT string_agg(DISTINCT topic, ',' ORDER BY topic) FROM outbox_internal.parked}), 'new.big,own', 'their topic has the new name');
is(sql(q{SELECT count(DISTINCT order_key) FROM outbox_internal.parked}), '2', 'and all of the key know each other');
$node->restart;
emit(5);
parked(5, 'after a restart, too');

$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', '536870912');
sql("SELECT outbox.retry('$first')");
ok(wait_until(sub { $redis->xlen('new.big') == 4 }, 30), 'one is let go, and all behind it follow');
is_deeply(lengths('new.big'), [ 2_000_001, 2, 4, 5 ], 'in the order of the key');
is($redis->xlen('old.big'), 0, 'none under the old name');
sql(q{SELECT outbox.retry(id) FROM outbox.dead_letter});
ok(wait_idle($node), 'all goes on');
is_deeply(lengths('own'), [2_000_003], 'the one with a topic of its own has kept it');
no_server_crashed($node);
done_testing();
