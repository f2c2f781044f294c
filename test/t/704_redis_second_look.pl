# matrix: E-5
# A Redis has lost its end of a stream, which is seen when it is met. Before it is met again another client writes to the stream and
# deletes from it, and a consumer had deleted all that it had handled: the stream looks as if it had been trimmed. What is lost
# is sent again all the same.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
redis_route($node, $redis, 'r', topic => q('s'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

emit_counted($node, 's', ['k'], 1, 20);
ok(wait_idle($node), 'delivered');
$redis->command('XDEL', 's', map { $_->{_entry} } @{ $redis->entries('s') });
$redis->command('SAVE');
emit_counted($node, 's', ['k'], 21, 30);
ok(wait_idle($node), 'and more, after the snapshot');
$redis->kill9;
$redis->restart;
ok(wait_until(sub { sql('SELECT error_code FROM outbox.destination') eq 'LOST_WRITES' }, 60), 'the loss is seen');
$redis->command('XADD', 's', '*', 'payload', "z $_") foreach 1, 2;
$redis->command('XDEL', 's', $redis->entries('s')->[0]{_entry});
emit_counted($node, 's', ['k'], 31, 32);
ok(wait_idle($node), 'idle');
my $k = by_key($redis->column('s', 'payload'))->{k};
like($k, qr/\b21 22 23 24 25 26 27 28 29 30 31 32$/, 'what was lost came again, before what is new') or diag($k);
is(sql(q{SELECT count(*) FROM outbox.audit WHERE action = 'rewind'}), 1, 'and that is told');

no_server_crashed($node);
$node->stop;
done_testing();
