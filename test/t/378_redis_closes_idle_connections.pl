# A Redis, or a proxy, that closes connections after two idle seconds is in no trouble: nothing is said in the views or in
# the server's log, and an event that comes after a rest goes at once.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
my $looks = 0;
# Connections but those of this test, which the server closes, too.
sub connections
{
	++$looks;
	return $redis->forget->connections - $looks;
}
redis_route($node, $redis, 'rests', topic => q('rests'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub emit { my ($key) = @_; return sql("SELECT outbox.emit('order', $key, 'x', '{}')") }

emit(1);
ok(wait_idle($node, 60), 'an event is delivered');
my $first = connections();
++$looks;
$redis->forget->command('CONFIG', 'SET', 'timeout', 2);
my %states;
ok(wait_until(sub {
	$states{ sql(q{SELECT state FROM outbox.destination WHERE server = 'rests'}) } = 1;
	return connections() >= $first + 4;
}, 120), 'the connection is closed while nothing is sent, and made again, four times');
is_deeply([ keys %states ], ['closed'], 'the breaker stays closed');
emit(2);
ok(wait_idle($node, 60), 'the next event is delivered');
++$looks;
$redis->forget;
is($redis->xlen('rests'), 2, 'each once');
unlike(slurp_file($node->logfile), qr/destination.*(?:in trouble|lost the connection)/, 'the server log says nothing of it');
no_server_crashed($node);
done_testing();
