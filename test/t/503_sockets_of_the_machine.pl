# A destination that names a Unix-domain socket works, and its sink process may make such sockets; with host and port in its place the
# process may not, as soon as the option is gone, and works as well, by a name that is resolved.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $redis = Outbox::Redis->start(conf => ["unixsocket $dir/redis"]);
my $result = "$ENV{OUTBOX_FAULT_DIR}/escape.result";
Outbox::Faults::put('escape', join("\n", $node->data_dir . '/PG_VERSION', $node->host . '/.s.PGSQL.' . $node->port));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub tries { return eval { slurp_file($result) } // '' }

sql("CREATE SERVER r FOREIGN DATA WRAPPER outbox_redis OPTIONS (unix_socket '$dir/redis'); SELECT outbox.create_route('r', server => 'r', topic => 't')");
sql(q{SELECT outbox.emit('order', 1, 'order.created', '{}')});
ok(wait_until(sub { $redis->xlen('t') == 1 }, 60), 'by a socket events arrive');
my $first = tries();
unlink $result;
sql("ALTER SERVER r OPTIONS (DROP unix_socket, ADD host 'localhost', ADD port '$redis->{port}')");
sql(q{SELECT outbox.emit('order', 1, 'order.created', '{}')});
ok(wait_until(sub { $redis->xlen('t') == 2 }, 60), 'by host and port, too');
is(sql(q{SELECT count(*) FROM outbox.test_server('r', timeout => '10 s') WHERE NOT ok}), '0', 'test_server() finds nothing wrong');
SKIP:
{
	skip "no seccomp on this kernel: $first", 2 if $first !~ /seccomp/;
	like($first, qr/ socket done /, 'with the socket named others can be connected to');
	unlike(tries(), qr/ socket done | datagrams done |^(?!.* pair done )/m, 'without it none can, while pairs can be made');
}
no_server_crashed($node);
$node->stop;
done_testing();
