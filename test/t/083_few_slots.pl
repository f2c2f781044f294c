# More databases than outbox.max_databases, and no room in max_worker_processes: what can run runs, the server log says
# what is missing, and room that comes free is used. The launcher comes back when it is terminated.
# matrix: C15 A4
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => "outbox.max_databases = 2\nmax_worker_processes = 8\n");
my $redis = Outbox::Redis->start;
my @names = map { "d$_" } 1 .. 5;
$node->safe_psql('postgres', "CREATE DATABASE $_") foreach @names;

sub use_extension
{
	my ($database) = @_;
	$node->safe_psql($database, qq(CREATE EXTENSION outbox;
		CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
		SELECT outbox.create_route('all', server => 'redis', topic => '$database');));
	$node->safe_psql($database, q(SELECT outbox.emit('order', 1, 'order.created', '{}')));
	return;
}

sub keepers
{
	return "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_stat_activity WHERE backend_type = 'outbox keeper'";
}

use_extension('d4');
use_extension('d5');
ok(wait_for_value($node, keepers(), 'd4 d5', 30), 'databases are found although there are more of them than slots');
is($node->safe_psql($_, "SELECT outbox.wait_until_idle('30 s')"), 't', "$_ publishes") foreach qw(d4 d5);
use_extension('d3');
ok($node->wait_for_log(qr/outbox cannot look after all databases of this server/), 'the server log says that the slots are used up');
is($redis->xlen('d3'), 0, 'the event of the third database waits');
$node->safe_psql('postgres', 'DROP DATABASE d4');
ok(wait_for_value($node, keepers(), 'd3 d5', 30), 'a slot that comes free is used');
is($node->safe_psql('d3', "SELECT outbox.wait_until_idle('30 s')"), 't', 'and the third database publishes');
is($redis->xlen('d3'), 1, 'what had waited');

my $launcher = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'outbox launcher'";
my $pid = $node->safe_psql('postgres', $launcher);
my $others = $node->safe_psql('postgres', "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE backend_type IN ('outbox keeper', 'outbox relay')");
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
is($node->safe_psql('postgres', $launcher), $pid, 'cancelling does nothing to the launcher');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox launcher' AND pid <> $pid", '1', 10),
	'a terminated launcher is back');
is($node->safe_psql('postgres', "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE backend_type IN ('outbox keeper', 'outbox relay')"),
	$others, 'and takes over the workers that run');

my $from = -s $node->logfile;
$node->append_conf('postgresql.conf', "max_worker_processes = 4\n");
$node->restart;
foreach my $database (qw(d3 d5))
{
	$node->safe_psql($database, q(SELECT outbox.emit('order', 1, 'order.created', '{}')));
	is($node->safe_psql($database, "SELECT outbox.wait_until_idle('60 s')"), 't', "with two processes $database publishes in its turn");
}
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile, $from), qr/could not start a background worker/, 'which is nothing for the server log');
$node->append_conf('postgresql.conf', "max_worker_processes = 2\n");
$node->restart;
ok($node->wait_for_log(qr/could not start a background worker of outbox for database/), 'the server log says that there are no processes left');
$node->append_conf('postgresql.conf', "max_worker_processes = 8\n");
$node->restart;
foreach my $database (qw(d3 d5))
{
	$node->safe_psql($database, q(SELECT outbox.emit('order', 1, 'order.created', '{}')));
	is($node->safe_psql($database, "SELECT outbox.wait_until_idle('30 s')"), 't', "with more of them $database publishes");
}
no_server_crashed($node);
done_testing();
