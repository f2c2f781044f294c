# matrix: E-6
# outbox.test_server() and three troubles of a Redis that is there and answers: what it advises has to do with them.
use strict;
use warnings;

use Outbox::Proxy;
use Outbox::Test;
use Test::More;

my $node = new_node();

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub server {
	my ($name, $redis) = @_;
	sql("CREATE SERVER $name FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
}
sub tried { my ($server, $timeout, $which) = @_; return sql("SELECT concat_ws('|', error_code, detail, hint) FROM outbox.test_server('$server', 'orders', timeout => '$timeout') WHERE $which") }

my $redis = Outbox::Redis->start;
server('plain', $redis);
$redis->command('ACL', 'SETUSER', 'default', '-exec');
my $rights = tried('plain', '60 s', q("check" = 'rights'));
like($rights, qr/it may be written to, but MULTI or EXEC is refused: /, 'no EXEC: one by one');
like($rights, qr/\|ACL SETUSER \.\.\. \+multi \+exec \+discard makes it several times faster\.$/, 'which rights are missing');
$redis->command('ACL', 'SETUSER', 'default', '+exec');

# A stalled machine may not get as far as the write in that time: then it is asked again.
$redis->command('CLIENT', 'PAUSE', 600_000, 'WRITE');
my $paused;
ok(wait_until(sub { $paused = tried('plain', '3 s', 'NOT ok'); return $paused =~ /^TIMEOUT\|.*CLIENT UNPAUSE/ }, 60), 'writes are paused') or diag $paused;
unlike($paused, qr/nobody answers there/, 'and somebody is there');
$redis->command('CLIENT', 'UNPAUSE');
is(sql(q{SELECT bool_and(ok) FROM outbox.test_server('plain', 'orders', timeout => '60 s')}), 't', 'no more');

SKIP: {
	# It is no defect of the address that a slot of the cluster has no node.
	my $version = `redis-server --version`;
	skip 'Redis before 7 has no option cluster-port', 2 if $version !~ /v=(\d+)/ || $1 < 7;
	my $bus = Outbox::Proxy::free_port();
	my $down = Outbox::Redis->start(conf => [ 'cluster-enabled yes', "cluster-port $bus" ]);
	$down->command('CLUSTER', 'ADDSLOTSRANGE', 0, 100);
	server('down', $down);
	my $told = tried('down', '60 s', 'NOT ok');
	like($told, qr/^CLUSTERDOWN\|.*CLUSTER INFO/, 'a cluster without some of its slots');
	unlike($told, qr/host and port/, 'whatever its address');
}

no_server_crashed($node);
done_testing();
