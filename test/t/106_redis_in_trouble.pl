# A Redis out of memory, with another password, or read-only is trouble of the destination: no event is charged, and all
# arrive when it is mended. A stream of the wrong type is trouble of that stream only. A value too large for the server
# is the fault of that event only.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
my $replica = Outbox::Redis->start;
redis_route($node, $redis, 'redis', aggregate_types => q('{well,bad,big}'), topic => q('{aggregate_type}'));
$replica->command('REPLICAOF', '127.0.0.1', $redis->{port});
redis_route($node, $replica, 'replica', aggregate_types => q('{to replica}'), topic => q('promoted'));

my $done = 0; # events of each key so far
my @keys = qw(a b);
sub numbers { my ($from, $to) = @_; return join ' ', $from .. $to }
sub more { my ($type, $count) = @_; emit_counted($node, $type, \@keys, $done + 1, $done + $count); $done += $count; return }
sub arrived { my ($stream) = @_; return by_key($redis->column($stream, 'payload')) }
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub destination_is
{
	my ($server, $class, $code, $what) = @_;
	return ok(wait_for_value($node, "SELECT state <> 'closed', error_class, error_code FROM outbox.destination WHERE server = '$server'", "t|$class|$code", 30), $what);
}
# Everything of `well` so far has arrived, in order, once.
sub complete
{
	my ($what) = @_;
	ok(wait_until(sub { $redis->xlen('well') >= $done * @keys }, 60), "$what: everything arrives");
	is_deeply(arrived('well'), { map { $_ => numbers(1, $done) } @keys }, "$what: in order, nothing twice");
	ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 20), "$what: no event was charged");
	return;
}
more('well', 50);
complete('before any trouble');

# Out of memory.
$redis->command('CONFIG', 'SET', 'maxmemory', 1);
more('well', 50);
destination_is('redis', 'destination', 'OOM', 'out of memory is trouble of the destination');
is($redis->xlen('well'), 100, 'nothing went in');
$redis->command('CONFIG', 'SET', 'maxmemory', 0);
complete('memory given back');

# Another password. Sessions that are already in stay so, hence the kill.
$redis->command('CONFIG', 'SET', 'requirepass', 'changed');
$redis->{password} = 'changed';
$redis->forget->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
more('well', 50);
ok(wait_for_value($node, q{SELECT state <> 'closed', error_class FROM outbox.destination WHERE server = 'redis'}, 't|config', 30), 'a changed password is trouble that a person must mend');
sql(q{CREATE USER MAPPING FOR CURRENT_USER SERVER redis OPTIONS (password 'changed')});
complete('new password given');

# One stream of the wrong type.
$redis->command('SET', 'bad', 'not a stream');
emit_counted($node, 'bad', \@keys, 1, 30);
more('well', 50);
emit_counted($node, 'bad', \@keys, 31, 60);
ok(wait_until(sub { $redis->xlen('well') == $done * @keys }, 30), 'a stream of the wrong type holds up no other stream of its route');
ok(wait_for_value($node, q{SELECT topic, error_class, error_code FROM outbox_internal.side_topic}, 'bad|topic|WRONGTYPE', 30), 'it has left the lane, with the reason');
is(sql(q{SELECT state FROM outbox.destination WHERE server = 'redis'}), 'closed', 'and is no trouble of the destination');
$redis->command('DEL', 'bad');
ok(wait_until(sub { $redis->xlen('bad') == 120 }, 60), 'it heals by itself');
is_deeply(arrived('bad'), { map { $_ => numbers(1, 60) } @keys }, 'in order, nothing twice');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.side_lane', '0', 60), 'and rejoins');
complete('beside the broken stream');

# Too large for this server: 1 MB is the least limit that it takes.
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', 1024 * 1024);
sql(q{ALTER DATABASE postgres SET outbox.max_payload_size = '2MB'});
$node->safe_psql('postgres', q{DO $$ BEGIN
	FOR i IN 1 .. 60 LOOP
		PERFORM outbox.emit_text('big', 'k', 'counted', 'k ' || i);
		IF i = 30 THEN PERFORM outbox.emit_text('big', 'k', 'huge', repeat('x', 1024 * 1024 + 100)); END IF;
	END LOOP; END $$});
ok(wait_idle($node, 60), 'idle');
is(sql(q{SELECT event_type, error_class FROM outbox.dead_letter}), 'huge|message', 'an event too large for the server is a dead letter, alone');
is_deeply(arrived('big'), { k => numbers(1, 60) }, 'its neighbours arrive in order, each once');

# A replica takes no writes until it is promoted.
emit_counted($node, 'to replica', \@keys, 1, 30);
destination_is('replica', 'destination', 'READONLY', 'a replica that takes no writes is trouble of the destination');
$replica->command('REPLICAOF', 'NO', 'ONE');
ok(wait_idle($node, 60), 'promoted, it gets them');
is_deeply(by_key($replica->column('promoted', 'payload')), { map { $_ => numbers(1, 30) } @keys }, 'in order, nothing twice');
is(sql(q{SELECT count(*) FROM outbox_internal.parked}), '1', 'and nothing else was parked');
no_server_crashed($node);
done_testing();
