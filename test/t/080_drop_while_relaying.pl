# DROP EXTENSION, DROP DATABASE, RENAME and use as a template while relay workers are busy: each goes through, nothing
# is left behind, and a role that may not drop a database does not disturb it.
# matrix: C8 C9 C11
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node(extension => 0, conf => "max_worker_processes = 16\n");
my $redis = Outbox::Redis->start;

# A database with the extension, a route to Redis and a load that never ends by itself.
sub busy_database
{
	my ($name) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, qq(CREATE EXTENSION outbox;
		CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
		SELECT outbox.create_route('all', server => 'redis', topic => '$name');));
	return emit_some($name);
}

sub emit_some
{
	my ($database) = @_;
	my $before = $redis->xlen($database);
	$node->safe_psql($database, q(INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload)
		SELECT 'order', (i % 100)::text, 'order.created', '{"total": 129.97}' FROM generate_series(1, 100000) i));
	for (1 .. 600) { return 1 if $redis->xlen($database) > $before; sleep 0.02 }
	return 0;
}

sub workers_in
{
	my ($database) = @_;
	return "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'outbox%' AND datname = '$database'";
}

ok(busy_database('dropped'), 'events flow from a database');
my $start = time;
$node->safe_psql('postgres', 'DROP DATABASE dropped');
cmp_ok(time - $start, '<', 5, 'DROP DATABASE while relaying goes through');
is($node->safe_psql('postgres', workers_in('dropped')), '0', 'its workers are gone');

ok(busy_database('renamed'), 'events flow from another');
$node->safe_psql('postgres', 'CREATE ROLE stranger LOGIN');
my $workers = $node->safe_psql('postgres', "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE datname = 'renamed' AND backend_type LIKE 'outbox%'");
my ($status, undef, $error) = $node->psql('postgres', 'SET ROLE stranger; DROP DATABASE renamed');
like($error, qr/must be owner of database renamed/, 'a stranger cannot drop it');
is($node->safe_psql('postgres', "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE datname = 'renamed' AND backend_type LIKE 'outbox%'"),
	$workers, 'and his attempt disturbs no worker');

$node->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE renamed');
pass('a copy is made while relaying');
$node->safe_psql('postgres', 'ALTER DATABASE renamed RENAME TO renewed');
pass('the database is renamed while relaying');
ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'renewed' AND backend_type = 'outbox relay'", '1'),
	'its relay worker is back');
ok($node->safe_psql('renewed', "SELECT outbox.wait_until_idle('60 s')") eq 't', 'and delivers');
is($redis->xlen('renamed'), 100000, 'everything, and nothing twice');

ok(emit_some('renewed') || 1, 'more events');
$start = time;
$node->safe_psql('renewed', 'DROP EXTENSION outbox CASCADE');
cmp_ok(time - $start, '<', 5, 'DROP EXTENSION while relaying goes through');
ok(wait_for_value($node, workers_in('renewed'), '0', 10), 'workers and keeper leave by themselves');
ok($node->safe_psql('renewed', qq(CREATE EXTENSION outbox;
	CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
	SELECT outbox.create_route('all', server => 'redis', topic => 'again') > 0)) eq 't', 'the extension can be created again');
ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'renewed' AND backend_type = 'outbox keeper'", '1', 10),
	'and is found');

# Rolled back, after two seconds in which they wait for its locks: every worker comes back.
$node->safe_psql('renewed', 'BEGIN; DROP EXTENSION outbox CASCADE; SELECT pg_sleep(2); ROLLBACK');
$node->safe_psql('renewed', q(SELECT outbox.emit('order', 1, 'order.created', '{}')));
is($node->safe_psql('renewed', "SELECT outbox.wait_until_idle('30 s')"), 't', 'a DROP EXTENSION that is rolled back changes nothing');
is($redis->xlen('again'), 1, 'events arrive after it');
no_server_crashed($node);
done_testing();
