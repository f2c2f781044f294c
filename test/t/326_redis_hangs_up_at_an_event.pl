# A Redis that closes the connection at one event, which is larger than it lets a client send at once: the event is a dead letter,
# and all others go on. While the server is started again and again nothing is charged to an event.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.max_payload_size = '20MB'\n");
my $redis = Outbox::Redis->start(conf => ['client-query-buffer-limit 1mb', 'appendonly yes', 'appendfsync always']);
redis_route($node, $redis, 'r', topic => q('s'), max_attempts => 1);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

emit_counted($node, 's', ['a', 'b'], 1, 10);
ok(wait_idle($node), 'delivered');
sql(q{SELECT outbox.emit_text('s', 'large', 'x', repeat('x', 3000000))});
emit_counted($node, 's', ['a', 'b'], 11, 20);
ok(wait_idle($node, 120), 'the lane goes on');
is(sql(q{SELECT aggregate_id, error_class, error_code FROM outbox.dead_letter}), 'large|solo-retry|CLOSES_CONNECTION', 'without the event that it stopped at');
like(sql(q{SELECT error_message FROM outbox.dead_letter}), qr/of 30\d{5} bytes: client-query-buffer-limit/, 'which is told with its size');
my $by_key = by_key($redis->column('s', 'payload'));
is_deeply([map { $by_key->{$_} } qw(a b)], [(join ' ', 1 .. 20) x 2], 'each key in order, each event once');

foreach my $start (1 .. 4)
{
	$redis->kill9;
	sql(q{SELECT outbox.emit_text('s', 'c', 'x', 'x')});
	$redis->restart;
	ok(wait_idle($node, 60), "delivered after start $start");
}
is(sql('SELECT count(*) FROM outbox.dead_letter'), 1, 'no other event is to blame');

$redis->command('CONFIG', 'SET', 'client-query-buffer-limit', '1gb');
sql(q{CALL outbox.redrive('r', dry_run => false)});
ok(wait_idle($node, 60), 'where the server takes more');
is(sql('SELECT count(*) FROM outbox.dead_letter'), 0, 'it is delivered, too');
$node->stop;
done_testing();
