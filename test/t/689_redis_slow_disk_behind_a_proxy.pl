# A Redis whose disk is slow (appendfsync always), behind a proxy that closes a connection whose answer comes too late: no event is at
# fault, though the server still answers whatever needs no disk, a write that changes nothing among it. None is put aside.
use strict;
use warnings;

use List::Util qw(uniq);
use Outbox::Proxy;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
my $proxy = Outbox::Proxy->new;
redis_route($node, { port => $proxy->redis($redis) }, 'r', topic => q('s'), max_attempts => 1);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub payloads { return join ' ', uniq @{ $redis->column('s', 'payload') } }

sql(q{SELECT outbox.emit_text('s', 'k', 'x', 'one')});
ok(wait_idle($node), 'delivered');

# As from such a disk: what is written of events is in memory, and the answer comes to nobody.
$proxy->tell(redis => 'hangup payload');
sql(q{SELECT outbox.emit_text('s', 'k' || i, 'x', 'event' || i) FROM generate_series(2, 4) i});
my $enough = $redis->connections + 10;
ok(wait_until(sub { $redis->connections >= $enough }, 120), 'the connection is closed again and again');
is(sql('SELECT count(*) FROM outbox.parked_event'), 0, 'no event is to blame')
  or diag(sql('SELECT state, error_class, error_code, attempts FROM outbox.parked_event'));
is(sql('SELECT count(*) FROM outbox.dead_letter'), 0, 'none is a dead letter');
$proxy->tell(redis => 'pass');
ok(wait_idle($node, 60), 'all goes on') or diag(sql('SELECT * FROM outbox.lag'));
is(payloads(), 'one event2 event3 event4', 'nothing is missing, in order');
is(sql('SELECT count(*) FROM outbox.dead_letter'), 0, 'and no event was given up');
$node->stop;
done_testing();
