# A Redis that is made a replica of another for a moment, and a primary again, keeps its connections and has lost what the other
# had not. Nothing is emitted meanwhile: it is noticed before anything is written to it, and soon where nothing is to be written.
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node();
my $redis = Outbox::Redis->start;
my $other = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('s'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub rewinds { return sql(q{SELECT count(*) FROM outbox.audit WHERE action = 'rewind'}) }
sub role { my ($server) = @_; return $server->command('ROLE')->[0] }

# The other one has what this one has by now.
sub copy
{
	$other->command('REPLICAOF', '127.0.0.1', $redis->{port});
	return wait_until(sub { $other->xlen('s') == $redis->xlen('s') }, 20) && $other->command('REPLICAOF', 'NO', 'ONE');
}

# This one becomes its replica, and a primary again; returns how many entries it has then.
sub go_back
{
	my $entries = $other->xlen('s');
	$redis->command('REPLICAOF', '127.0.0.1', $other->{port});
	wait_until(sub { $redis->command('INFO', 'replication') =~ /master_link_status:up/ && $redis->xlen('s') == $entries }, 20) or die 'no replica';
	$redis->command('REPLICAOF', 'NO', 'ONE');
	return $redis->xlen('s');
}

my $last = 0;
sub emit { my ($count) = @_; emit_counted($node, 's', ['k'], $last + 1, $last + $count); $last += $count; return wait_idle($node) }

foreach my $right ('+@all', '-multi')
{
	$redis->command('ACL', 'SETUSER', 'default', $right);
	$redis->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
	my $before = rewinds();
	ok(emit(200) && copy(), "$right: delivered, and copied");
	ok(emit(30), 'and more');
	is(go_back(), $last - 30, 'which is lost');
	ok(emit(10), 'then events come');
	my $k = by_key($redis->column('s', 'payload'))->{k};
	is($k, join(' ', 1 .. $last), 'what was lost is sent before them') or diag(substr($k, 0, 200), '...', substr($k, -300));
	is(rewinds(), $before + 1, 'once');
}
$redis->command('ACL', 'SETUSER', 'default', '+@all');
$redis->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');

ok(emit(5) && copy() && emit(20), 'delivered, copied, and more');
is(go_back(), $last - 20, 'which is lost');
ok(wait_until(sub { $redis->xlen('s') == $last }, 30), 'it is sent again although nothing is emitted');
is(by_key($redis->column('s', 'payload'))->{k}, join(' ', 1 .. $last), 'in order');
ok(wait_idle($node), 'idle');
is(role($redis), 'master', 'all the while by one server');

no_server_crashed($node);
$node->stop;
done_testing();
