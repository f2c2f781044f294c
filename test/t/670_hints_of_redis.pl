# matrix: E-6
# outbox.test_server() and troubles of a Redis that is there and answers, or of its socket: what it advises has to do with them.
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

# A topic is what the routes of the server have there: lists and channels that work are no streams.
sub row { my ($topic, $which) = @_; return sql(qq{SELECT concat_ws('|', "check", ok, error_code, hint) FROM outbox.test_server('plain', '$topic', timeout => '60 s') WHERE $which}) }
sql(q{SELECT outbox.create_route('jobs', 'plain', '{job}', topic => 'jobs.{event_type}', options => '{"mode": "list"}')});
sql(q{SELECT outbox.create_route('calls', 'plain', '{call}', topic => 'calls', options => '{"mode": "publish"}')});
sql(q{SELECT outbox.emit('job', '1', 'mail', '{}'), outbox.emit('call', '1', 'x', '{}')});
ok(wait_until(sub { ($redis->command('LLEN', 'jobs.mail') // 0) == 1 }, 60), 'a list is written to');
is(row('jobs.mail', q{NOT ok OR "check" = 'rights'}), 'rights|t', 'and is found to be in order');
is(row('calls', q{NOT ok OR "check" = 'rights'}), 'rights|t', 'a channel, too');
is($redis->command('LLEN', 'jobs.mail'), 1, 'nothing was written');
$redis->command('ACL', 'SETUSER', 'default', '-rpush', '-publish');
like(row('jobs.mail', 'NOT ok'), qr/^rights\|f\|NOPERM\|ACL SETUSER .*\+rpush ~jobs\.mail gives/, 'what is missing is what a list needs');
like(row('calls', 'NOT ok'), qr/^rights\|f\|NOPERM\|ACL SETUSER .*\+publish &calls gives/, 'or a channel');
$redis->command('ACL', 'SETUSER', 'default', '+rpush', '+publish');
$redis->command('XADD', 'jobs.x', '*', 'a', 'b');
like(row('jobs.x', 'NOT ok'), qr/^topic\|f\|WRONGTYPE\|.*option mode/, 'a stream in the place of a list is told');

# Commands that have another name: PING is not needed.
my $renamed = Outbox::Redis->start(conf => [ 'rename-command PING ""', 'rename-command XADD ""' ]);
server('renamed', $renamed);
like(tried('renamed', '60 s', 'NOT ok'), qr/^UNKNOWN_COMMAND\|.*rename-command/, 'a command with another name');

# A socket has no port.
sql(q{CREATE SERVER no_socket FOREIGN DATA WRAPPER outbox_redis OPTIONS (unix_socket '/nonexistent/redis')});
my $no_socket = tried('no_socket', '60 s', 'NOT ok');
like($no_socket, qr/^CONNECT\|.*unixsocketperm/, 'a socket that is not there');
unlike($no_socket, qr/port|bind/, 'and nothing of ports');

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
