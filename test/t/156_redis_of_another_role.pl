# matrix: E-5 E-6 R9
# While an address moves, for a moment another Redis may answer there: a replica that has nothing yet, a Sentinel, an empty
# primary. None of them has lost anything, and nothing is sent twice. One that stays has.
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node();
my $redis = Outbox::Redis->start;
my $other = Outbox::Redis->start(conf => ['appendonly no']);
my ($port, $elsewhere) = ($redis->{port}, $other->{port});
redis_route($node, $redis, 'r', topic => q('s'), server_options => q(, timeout '5000'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub error { return sql(q{SELECT coalesce(error_code, '') FROM outbox.destination WHERE server = 'r'}) }
sub rewinds { return sql(q{SELECT count(*) FROM outbox.audit WHERE action = 'rewind'}) }

# The two change places; connections there are break.
sub move
{
	my ($server, $to) = @_;
	$server->command('CONFIG', 'SET', 'port', $to);
	$server->{port} = $to;
	$server->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
	$server->forget;
	return;
}
my $spare = $elsewhere + 1;
sub here
{
	my ($server) = @_;
	move($server == $redis ? $other : $redis, $spare);
	$spare = $server->{port};
	move($server, $port);
	return;
}

emit_counted($node, 's', ['k'], 1, 500);
ok(wait_idle($node), 'idle');

$other->command('REPLICAOF', '127.0.0.1', 1);
here($other);
ok(wait_until(sub { error() eq 'READONLY' }, 20), 'an empty replica answers');
emit_counted($node, 's', ['k'], 501, 510);
my $since = sql('SELECT clock_timestamp()');
ok(wait_until(sub { sql("SELECT clock_timestamp() > '$since'::timestamptz + interval '4 s'") eq 't' }, 20), 'for four seconds');
is(rewinds(), 0, 'that has lost nothing');
is(error(), 'READONLY', 'and is left alone all the while');
here($redis);
ok(wait_idle($node), 'idle when the primary is back');
is(by_key($redis->column('s', 'payload'))->{k}, join(' ', 1 .. 510), 'each event is there once');

# The same with an empty primary, until the first look at it.
$other->command('REPLICAOF', 'NO', 'ONE');
here($other);
ok(wait_until(sub { error() eq 'LOST_WRITES' }, 20), 'an empty primary answers');
here($redis);
emit_counted($node, 's', ['k'], 511, 520);
ok(wait_idle($node), 'idle when the one with the events is back');
is(rewinds(), 0, 'nothing was put back');
is(by_key($redis->column('s', 'payload'))->{k}, join(' ', 1 .. 520), 'each event is there once');
is($other->command('EXISTS', 's'), 0, 'and none there');

# It stays.
here($other);
ok(wait_until(sub { rewinds() == 1 }, 20), 'an empty primary that stays has lost everything');
ok(wait_idle($node), 'idle');
is(by_key($other->column('s', 'payload'))->{k}, join(' ', 1 .. 520), 'and gets it again');
no_server_crashed($node);
done_testing();
