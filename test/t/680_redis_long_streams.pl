# A stream of 300,000 entries at a Redis that others need, too: what outbox asks to know whether it may read it, and what the server still has of
# it, makes the server walk over none of them. SLOWLOG tells what took long; a machine that stalls makes one question slow, not each.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""', 'slowlog-log-slower-than 15000', 'slowlog-max-len 10000' ]);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub fill { $redis->command('EVAL', "for i = 1, 50000 do redis.call('XADD', KEYS[1], '*', 'a', '') end", 1, 'orders') foreach 1 .. 6; return }
sub asked { return $redis->command('INFO', 'commandstats') =~ /cmdstat_xrevrange:calls=(\d+)/ ? $1 : 0 }
sub slow { return scalar grep { lc $_->[3][0] eq 'xrevrange' } @{ $redis->command('SLOWLOG', 'GET', 10_000) } }
sub from_now_on { $redis->command('CONFIG', 'RESETSTAT'); $redis->command('SLOWLOG', 'RESET'); return }
sub few_slow
{
	my ($what) = @_;
	my ($asked, $slow) = (asked(), slow());
	return cmp_ok($slow, '<=', $asked / 2, "$what: of $asked questions few took long");
}

# The entry that there can be none behind makes it no longer; it is of a megabyte.
$redis->command('XADD', 'last', '18446744073709551615-18446744073709551615', 'a', 'x' x (1 << 20));

sql("CREATE SERVER r FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
sql(q{SELECT outbox.create_route('r', server => 'r', topic => 'orders')});
emit_counted($node, 'order', ['k'], 1, 10);
ok(wait_idle($node, 60), 'delivered');
fill();

# Each new connection greets, and each ten seconds it is asked again.
from_now_on();
foreach my $round (1 .. 3)
{
	my $before = asked();
	$redis->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
	ok(wait_until(sub { asked() > $before }, 60), "connection $round asks whether it may read");
}
my $before = asked();
ok(wait_until(sub { asked() > $before }, 60), 'and asks again');
few_slow('connections');

from_now_on();
is(sql(q{SELECT bool_and(ok) FROM outbox.test_server('r', 'orders', timeout => '60 s')}), 't', 'test_server() finds nothing wrong') foreach 1 .. 4;
cmp_ok(asked(), '>=', 4, 'it asks, too');
few_slow('test_server()');
is(sql(q{SELECT string_agg(hint, '') FROM outbox.test_server('r', 'last', timeout => '60 s') WHERE hint LIKE '%NO_LOSS_CHECK%'}), '', 'and reads a stream with a last entry');

# All that was acknowledged has been trimmed, and others have written since: what the next run has is asked about entries that come before the first.
ok(wait_for_value($node, q{SELECT count(*) FROM outbox.lag WHERE inflight > 0}, 0, 60), 'acknowledged');
$redis->command('XTRIM', 'orders', 'MAXLEN', 0);
fill();
my $meetings = sql('SELECT coalesce(max(number), 0) FROM outbox_internal.server_run');
$redis->command('SAVE');
$redis->kill9;
$redis->restart;
ok(wait_until(sub { sql('SELECT coalesce(max(number), 0) FROM outbox_internal.server_run') > $meetings }, 60), 'the next run is met');
emit_counted($node, 'order', ['k'], 11, 20);
ok(wait_idle($node, 60), 'delivered to it');
my @walks = grep { lc $_->[3][0] eq 'xrevrange' && $_->[3][2] ne '+' } @{ $redis->command('SLOWLOG', 'GET', 10_000) };
is(scalar @walks, 0, 'it was not asked for what it cannot have') or diag join ' ', @{ $walks[0][3] };
is(sql(q{SELECT count(*) FROM outbox.audit WHERE action IN ('rewind', 'lost writes')}), 0, 'what is trimmed is not lost');

no_server_crashed($node);
done_testing();
