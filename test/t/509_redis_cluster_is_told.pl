# matrix: E-6
# A node of a Redis cluster takes some streams and refuses others: test_server() says so before there is a topic, and
# doctor() what to do once something is refused.
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
my $redis = Outbox::Redis->start(conf => [ 'cluster-enabled yes', "cluster-port $buses[0]" ]);
sub tried { my ($arguments, $columns) = @_; return sql("SELECT $columns FROM outbox.test_server($arguments, timeout => '20 s')") }

$redis->command('CLUSTER', 'ADDSLOTSRANGE', 0, 16383);
ok(wait_until(sub { ($redis->command('CLUSTER', 'INFO') // '') =~ /cluster_state:ok/ }, 60), 'a cluster of one node');
$node->safe_psql('postgres', "CREATE SERVER r FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
like(tried(q('r'), q(string_agg(hint, ' ') FILTER (WHERE "check" = 'server') || bool_and(ok))), qr/^Warning: this is a Redis cluster\. .*\(MOVED\).*true$/, 'test_server() says that it is a cluster');
is(tried(q('r', 'orders'), 'bool_and(ok)'), 't', 'a topic in its slots may be written to');

# A second node, which has one of the slots.
my $other = Outbox::Redis->start(conf => [ 'cluster-enabled yes', "cluster-port $buses[1]" ]);
my $slot = $redis->command('CLUSTER', 'KEYSLOT', 'orders');
my $id = $other->command('CLUSTER', 'MYID');
$redis->command('CLUSTER', 'MEET', '127.0.0.1', $other->{port}, $buses[1]);
ok(wait_until(sub { ($redis->command('CLUSTER', 'NODES') // '') =~ /\Q$id\E [^\n]* connected/ }, 60), 'a second node');
$redis->command('CLUSTER', 'SETSLOT', $slot, 'NODE', $id);
ok(wait_until(sub { tried(q('r', 'orders'), q(string_agg(concat_ws('|', error_code, hint), '') FILTER (WHERE NOT ok))) =~ /^MOVED\|A node of a Redis cluster takes/ }, 60), 'a topic in the slots of another is refused, with what to do');

sql(q{SELECT outbox.create_route('orders', server => 'r', topic => 'orders'); SELECT outbox.emit('o', '1', 'x', '{}')});
my $told = q(SELECT hint FROM outbox.doctor() WHERE "check" = 'topic' AND detail LIKE '%MOVED%');
ok(wait_until(sub { sql($told) =~ /A node of a Redis cluster takes .*a proxy that knows the cluster \(behind which lost writes may not be noticed\), or give that node/ }, 60), 'doctor() says what to do') or diag sql($told);
$redis->command('CLUSTER', 'SETSLOT', $slot, 'NODE', $redis->command('CLUSTER', 'MYID'));
ok(wait_idle($node, 60), 'and what waited goes when the node takes it');

no_server_crashed($node);
done_testing();
