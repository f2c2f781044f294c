# A Redis that closes the connection at several events in a row, which are larger than it lets a client send at once: each is
# found and refused, and all others go on. While writes are paused, and a proxy loses patience and closes the connection, no event is to blame,
# though the server answers all other questions.
use strict;
use warnings;

use List::Util qw(uniq);
use Outbox::Proxy;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.max_payload_size = '20MB'\n");
my $redis = Outbox::Redis->start(conf => ['client-query-buffer-limit 1mb']);
my $proxy = Outbox::Proxy->new;
redis_route($node, { port => $proxy->redis($redis) }, 'r', topic => q('s'), max_attempts => 1);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub payloads { return join ' ', uniq @{ $redis->column('s', 'payload') } }

sql(q{SELECT outbox.emit_text('s', 'k', 'x', 'one')});
ok(wait_idle($node), 'delivered');
SKIP:
{
	my ($version) = $redis->command('INFO', 'server') =~ /redis_version:(\d+\.\d+)/;
	skip "Redis $version pauses no writes", 4 if $version < 6.2;
	$proxy->tell(redis => 'impatient 300');
	$redis->command('CLIENT', 'PAUSE', 600_000, 'WRITE');
	sql(q{SELECT outbox.emit_text('s', 'k', 'x', 'two'); SELECT outbox.emit_text('s', 'k', 'x', 'three')});
	my $enough = $redis->connections + 8;
	ok(wait_until(sub { $redis->connections >= $enough }, 120), 'the connection is closed again and again');
	is(sql('SELECT count(*) FROM outbox.parked_event'), 0, 'no event is to blame');
	$redis->command('CLIENT', 'UNPAUSE');
	$proxy->tell(redis => 'pass');
	ok(wait_idle($node, 60), 'all goes on');
	is(payloads(), 'one two three', 'nothing is missing');
}

# In one transaction, so that nothing is between them.
sql(q{SELECT outbox.emit_text('s', 'large' || i, 'x', repeat('x', 2000000 + i)) FROM generate_series(1, 3) i; SELECT outbox.emit_text('s', 'k', 'x', 'last')});
ok(wait_idle($node, 120), 'the lane goes on');
is(sql(q{SELECT string_agg(format('%s %s %s', aggregate_id, error_class, error_code), ',' ORDER BY aggregate_id) FROM outbox.dead_letter}),
	join(',', map { "large$_ solo-retry CLOSES_CONNECTION" } 1 .. 3), 'without the events that it stopped at');
like(payloads(), qr/^one (two three )?last$/, 'all others arrived');
$node->stop;
done_testing();
