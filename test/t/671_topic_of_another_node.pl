# matrix: E-6
# A node of a Redis cluster takes the topics whose slots it has, whatever it refuses of the same route: a topic of another node's
# waits alone, before and after its slot has moved.
use strict;
use warnings;

use Outbox::Proxy;
use Outbox::Test;
use Test::More;

plan skip_all => 'Redis before 7 has no option cluster-port' if `redis-server --version` !~ /v=(\d+)/ || $1 < 7;
my $node = new_node();

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
# By default the port that nodes speak to each other at is 10000 above, which not every free port has above it.
my @buses = map { Outbox::Proxy::free_port() } 1 .. 2;
my ($redis, $other) = map { Outbox::Redis->start(conf => [ 'cluster-enabled yes', "cluster-port $_" ]) } @buses;
$redis->command('CLUSTER', 'ADDSLOTSRANGE', 0, 16383);
ok(wait_until(sub { ($redis->command('CLUSTER', 'INFO') // '') =~ /cluster_state:ok/ }, 60), 'a cluster of one node');
my $id = $other->command('CLUSTER', 'MYID');
$redis->command('CLUSTER', 'MEET', '127.0.0.1', $other->{port}, $buses[1]);
ok(wait_until(sub { ($redis->command('CLUSTER', 'NODES') // '') =~ /\Q$id\E [^\n]* connected/ }, 60), 'a second node');

# One lane, so that nothing but the class of the error keeps them apart.
redis_route($node, $redis, 'r', topic => q('{aggregate_type}'), lanes => 1);
my %emitted;
sub emit { my ($topic) = @_; $emitted{$topic}++; sql("SELECT outbox.emit_text('$topic', 'k', 'x', '$emitted{$topic}')") }
emit($_) foreach qw(here moves);
ok(wait_idle($node, 60), 'both are in its slots');

$redis->command('DEL', 'moves');
my $slot = $redis->command('CLUSTER', 'KEYSLOT', 'moves');
$redis->command('CLUSTER', 'SETSLOT', $slot, 'NODE', $id);
ok(wait_until(sub { !eval { $redis->command('XLEN', 'moves'); 1 } && $@ =~ /MOVED/ }, 60), 'one slot goes to the other node') or diag $@;
emit('moves');
my $lag = q(SELECT error_class, error_code FROM outbox.lag WHERE topic = 'moves');
ok(wait_until(sub { sql($lag) eq 'topic|MOVED' }, 60), 'its topic has left the lane') or diag sql('SELECT * FROM outbox.lag');
emit('here') foreach 1 .. 5;
ok(wait_until(sub { $redis->xlen('here') == $emitted{here} }, 60), 'the other one is delivered') or diag sql('SELECT * FROM outbox.lag');
is(sql(q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'destination' AND status = 'problem')), 0, 'the destination works');
like(sql(q(SELECT hint FROM outbox.doctor() WHERE "check" = 'topic')), qr/^It stops no other topic.*takes the topics whose slots it has/, 'doctor() says what to do');

$redis->command('CLUSTER', 'SETSLOT', $slot, 'NODE', $redis->command('CLUSTER', 'MYID'));
ok(wait_idle($node, 60), 'what waited goes when the node takes it');
is($redis->xlen('moves'), 1, 'once');

no_server_crashed($node);
done_testing();
