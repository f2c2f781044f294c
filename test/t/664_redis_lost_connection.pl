# A connection to Redis that is lost with hundreds of events on their way, for no fault of theirs: they are sent again in a few
# transactions, not each in one of its own, which is a round trip for each, during which the events of all topics waited.
use strict;
use warnings;

use List::Util qw(max);
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
my ($version) = $redis->command('INFO', 'server') =~ /redis_version:(\d+\.\d+)/;
plan skip_all => "Redis $version pauses no writes" if $version < 6.2;
redis_route($node, $redis, 'r', topic => q('{aggregate_type}'), server_options => q(, timeout '300000'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub transactions { return ($redis->command('INFO', 'commandstats') =~ /cmdstat_exec:calls=(\d+)/)[0] // 0 }

sql(q{SELECT outbox.emit_text('s', 'k', 'x', '0')});
ok(wait_idle($node), 'delivered');
foreach my $round (1 .. 2)
{
	my $events = 2000 * $round;
	$redis->command('CLIENT', 'PAUSE', 600_000, 'WRITE');
	sql(q{SELECT count(outbox.emit_text('s', (i % 100)::text, 'x', i::text)) FROM generate_series(1, 2000) i});
	sql(q{SELECT outbox.emit_text('q', 'k', 'x', 'beside')});
	ok(wait_until(sub { (max $redis->command('CLIENT', 'LIST') =~ / qbuf=(\d+)/g) > 30_000 }), 'a hundred events and more are on their way')
	  or diag $redis->command('CLIENT', 'LIST');
	$redis->command('CONFIG', 'RESETSTAT');
	$redis->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
	$redis->command('CLIENT', 'UNPAUSE');
	ok(wait_idle($node, 120), 'all goes on');
	cmp_ok(transactions(), '<', 60, 'in few transactions, not one for each of them');
	is($redis->xlen('s') - 1, $events, 'nothing twice, nothing missing');
	is($redis->xlen('q'), $round, 'nor of the other topic');
}
is(join(' ', @{ $redis->column('s', 'payload') }), join(' ', 0, (1 .. 2000) x 2), 'in order');
is(sql('SELECT count(*) FROM outbox.parked_event'), 0, 'no event is to blame');
$node->stop;
done_testing();
