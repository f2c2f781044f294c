# matrix: E-5
# A Redis that was a replica for a moment forgets whom it followed when it has had no replica for a while, and looks like one that
# never was: what it lost as a replica, with outbox not connected, is sent again. One that was a replica before stays the run that
# it is when it forgets that: what has been deleted there on purpose does not come again.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my %redis = (lost => Outbox::Redis->start(conf => ['repl-backlog-ttl 1']), kept => Outbox::Redis->start);
my $other = Outbox::Redis->start(conf => ['repl-diskless-sync-delay 0']);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub there { my ($name) = @_; return by_key($redis{$name}->column($name, 'payload'))->{k} // '' }
sub rewinds { return sql(q{SELECT coalesce(string_agg(DISTINCT route, ','), '') FROM outbox.audit WHERE action = 'rewind'}) }

# One is a replica of the other until it has as many entries as that one, then a primary.
sub copy
{
	my ($from, $to) = @_;
	$to->command('REPLICAOF', '127.0.0.1', $from->{port});
	wait_until(sub { $to->command('INFO', 'replication') =~ /master_link_status:up/ && $to->xlen('lost') == $from->xlen('lost') }, 20) or die 'no replica';
	return $to->command('REPLICAOF', 'NO', 'ONE');
}
sub forgets { my ($redis) = @_; return wait_until(sub { $redis->command('INFO', 'replication') =~ /master_replid2:0+\r/ }, 20) }

copy($other, $redis{kept});
redis_route($node, $redis{$_}, $_, aggregate_types => "'{$_}'", topic => "'$_'") foreach sort keys %redis;
emit_counted($node, $_, ['k'], 1, 100) foreach sort keys %redis;
ok(wait_idle($node), 'idle');
copy($redis{lost}, $other);
emit_counted($node, 'lost', ['k'], 101, 130);
ok(wait_idle($node), 'idle again');

# Over the connection that there is.
$redis{kept}->command('FLUSHALL');
$redis{kept}->command('CONFIG', 'SET', 'repl-backlog-ttl', 1);
ok(forgets($redis{kept}), 'one that was a replica long ago forgets that');
emit_counted($node, 'kept', ['k'], 101, 101);
ok(wait_idle($node), 'it gets more');
is(there('kept'), '101', 'and nothing again');

$node->stop;
copy($other, $redis{lost});
is($redis{lost}->xlen('lost'), 100, 'the other has lost something, as a replica');
ok(forgets($redis{lost}), 'and forgets that it was one');
$node->start;
emit_counted($node, 'lost', ['k'], 131, 140);
emit_counted($node, 'kept', ['k'], 102, 102);
ok(wait_idle($node), 'both get more');
is(there('lost'), join(' ', 1 .. 140), 'what was lost is sent again, before that');
is(there('kept'), '101 102', 'nothing else is');
is(rewinds(), 'lost', 'as outbox.audit has it');
no_server_crashed($node);
done_testing();
