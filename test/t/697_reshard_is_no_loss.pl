# matrix: E-5 E-6
# A stream that another node of a Redis cluster has by now, as after a reshard, is not asked about any more: it does not count as lost
# when its former node is restarted, though nothing that is there is younger. What that node loses beside it is noticed all the same.
use strict;
use warnings;

use Outbox::Proxy;
use Outbox::Test;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

plan skip_all => 'Redis before 7 has no option cluster-port' if `redis-server --version` !~ /v=(\d+)/ || $1 < 7;
my $node = new_node();

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
# By default the port that nodes speak to each other at is 10000 above, which not every free port has above it.
my @buses = map { Outbox::Proxy::free_port() } 1 .. 2;
my ($redis, $other) = map { Outbox::Redis->start(conf => [ 'appendonly no', 'cluster-enabled yes', "cluster-port $_" ]) } @buses;
my ($mine, $its) = map { $_->command('CLUSTER', 'MYID') } $redis, $other;
sub in_order { my ($of) = @_; return wait_until(sub { ($of->command('CLUSTER', 'INFO') // '') =~ /cluster_state:ok/ }, 60) }
$redis->command('CLUSTER', 'ADDSLOTSRANGE', 0, 16383);
ok(in_order($redis), 'a cluster of one node');
$redis->command('CLUSTER', 'MEET', '127.0.0.1', $other->{port}, $buses[1]);
ok(wait_until(sub { ($redis->command('CLUSTER', 'NODES') // '') =~ /\Q$its\E [^\n]* connected/ }, 60), 'a second node');
ok(in_order($other), 'which knows the first');

redis_route($node, $redis, 'r', topic => q('{aggregate_type}'), lanes => 1);
my %emitted;
sub emit { my ($topic) = @_; $emitted{$topic}++; sql("SELECT outbox.emit_text('$topic', 'k', 'x', '$emitted{$topic}')") }
sub arrived { my ($at, $topic) = @_; return join ' ', @{ $at->column($topic, 'payload') } }
sub rewinds { return sql(q(SELECT count(*) FROM outbox.audit WHERE action = 'rewind')) }
sub restarted { $redis->kill9; $redis->restart; return in_order($redis) }
foreach my $topic (qw(here moves))
{
	emit($topic);
	ok(wait_idle($node, 60), "an event for $topic");
}

my $slot = $redis->command('CLUSTER', 'KEYSLOT', 'moves');
$other->command('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $mine);
$redis->command('CLUSTER', 'SETSLOT', $slot, 'MIGRATING', $its);
is($redis->command('MIGRATE', '127.0.0.1', $other->{port}, 'moves', 0, 60000), 'OK', 'the one written last moves to the other node');
$_->command('CLUSTER', 'SETSLOT', $slot, 'NODE', $its) foreach $other, $redis;
$redis->command('SAVE');
ok(restarted(), 'the node is restarted');
emit('here');
ok(wait_idle($node, 60), 'and written to') or diag sql('SELECT * FROM outbox.lag');
is(arrived($redis, 'here'), '1 2', 'nothing comes twice');
is(arrived($other, 'moves'), '1', 'nor is anything sent to where it is not');
is(rewinds(), 0, 'no loss in the audit');
unlike(slurp_file($node->logfile), qr/has lost what it had acknowledged/, 'nor in the log');
is(sql(q(SELECT string_agg(detail, '; ') FROM outbox.doctor() WHERE detail LIKE '%LOST_WRITES%')), '', 'nor in doctor()');

$redis->command('SAVE');
emit('here') foreach 1 .. 2;
ok(wait_idle($node, 60), 'more events');
ok(restarted(), 'the node comes back without them');
ok(wait_until(sub { rewinds() == 1 }, 60), 'that is noticed');
ok(wait_idle($node, 60), 'they are sent again') or diag sql('SELECT * FROM outbox.lag');
is(arrived($redis, 'here'), '1 2 3 4', 'all of them, once');
is(arrived($other, 'moves'), '1', 'and nothing of the stream that has moved');

no_server_crashed($node);
done_testing();
