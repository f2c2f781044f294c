# Behind PgBouncer, pooling by transaction: twenty clients share two sessions of the server. What they emit in the transaction of their
# own change arrives once if that commits, in order per key, by simple and by extended protocol, and in a transaction that has prepared
# a statement; what rolls back does not; SET LOCAL holds for its transaction and for nobody else's; a lone emit is told of by
# transaction, whoever's session it is.
# ring: long
use strict;
use warnings;

use Outbox::Proxy;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my ($program) = grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';
plan skip_all => 'no pgbouncer here' if !$program;
my $node = new_node(conf => "outbox.workers = 1\noutbox.lone_emit = warn\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('{aggregate_type}'));
$node->safe_psql('postgres', q{CREATE ROLE app LOGIN; CREATE TABLE orders (client int, n serial); GRANT ALL ON orders, orders_n_seq TO app;
	SELECT outbox.grant_emit('app')});

my $dir = PostgreSQL::Test::Utils::tempdir();
my $port = Outbox::Proxy::free_port();
append_to_file("$dir/users.txt", qq("app" ""\n"postgres" ""\n));
append_to_file("$dir/pgbouncer.ini", "[databases]\npostgres = host=" . $node->host . ' port=' . $node->port . " dbname=postgres\n[pgbouncer]
listen_addr = 127.0.0.1\nlisten_port = $port\nunix_socket_dir =\nauth_type = trust\nauth_file = $dir/users.txt
pool_mode = transaction\ndefault_pool_size = 2\nlogfile = $dir/log\npidfile = $dir/pid\nignore_startup_parameters = extra_float_digits,options\n");
my $bouncer = IPC::Run::start([ $program, "$dir/pgbouncer.ini" ], '>', "$dir/out", '2>&1');
END { my $status = $?; $bouncer->kill_kill if $bouncer; $? = $status }

# Through the pool, as the application; returns what it said.
sub pooled
{
	my ($sql, %options) = @_;
	my ($out, $said) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=' . ($options{go_on} ? 0 : 1), "host=127.0.0.1 port=$port user=app dbname=postgres" ], '<', \$sql, '>', \$out, '2>', \$said);
	return ($out, $said);
}
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub bench
{
	my ($script, @options) = @_;
	append_to_file("$dir/script" . ++$main::scripts, $script);
	my ($out, $said) = ('', '');
	IPC::Run::run([ 'pgbench', '-n', '-c', 20, '-t', 10, @options, '-f', "$dir/script$main::scripts", '-h', '127.0.0.1', '-p', $port, '-U', 'app', 'postgres' ], '>', \$out, '2>', \$said);
	return ($out =~ m{actually processed: (\d+)} ? $1 : -1, $said);
}
sub change { my ($type, $last) = @_; return "BEGIN;\nINSERT INTO orders (client) VALUES (:client_id) RETURNING n \\gset\nSELECT outbox.emit('$type', :client_id, 'made', jsonb_build_object('n', :n::int));\n$last;\n" }

ok(wait_until(sub { (pooled('SELECT 1'))[0] eq "1\n" }, 30), 'the pool is up') || diag(slurp_file("$dir/log"));
foreach my $mode ('simple', 'extended')
{
	my ($done, $said) = bench(change($mode, 'COMMIT'), '-M', $mode);
	is($done, 200, "$mode: two hundred transactions of twenty clients");
	ok(wait_until(sub { $redis->xlen($mode) == 200 }, 60), 'each event arrives');
	my (%last, $wrong);
	foreach my $entry (@{ $redis->entries($mode) })
	{
		my ($n) = $entry->{payload} =~ /(\d+)/;
		$wrong++ if $n <= ($last{ $entry->{key} } // 0);
		$last{ $entry->{key} } = $n;
	}
	is($wrong // 0, 0, 'once, in order per key');
}
is((bench(change('gone', 'ROLLBACK'), '-M', 'extended'))[0], 200, 'two hundred that roll back');
# (Named statements of the protocol are the pool's affair: PgBouncer knows of them from 1.21 on.)
ok(wait_idle($node), 'idle');
is($redis->xlen('gone'), 0, 'of which nothing arrives');
is(sql(q{SELECT count(*) FROM orders}), '400', 'changes and events are as many');

# In one transaction of one client, whatever session that gets.
my ($out, $said) = pooled(q{BEGIN; PREPARE e (int) AS SELECT outbox.emit('own', 1, 'said', jsonb_build_object('n', $1)) IS NOT NULL; INSERT INTO orders (client) VALUES (1);
	EXECUTE e (1); EXECUTE e (2); DEALLOCATE e; COMMIT;});
is("$out$said", "t\nt\n", 'a statement that is prepared, executed and deallocated in its transaction');
ok(wait_until(sub { $redis->xlen('own') == 2 }, 60), 'arrives');

# SET LOCAL: this transaction's, and nobody's after it.
my $lone = q{SELECT outbox.emit('lone', 1, 'said', '{}') IS NOT NULL;};
($out, $said) = pooled("BEGIN; SET LOCAL outbox.lone_emit = 'refuse'; $lone COMMIT;", go_on => 1);
like($said, qr/changed nothing else/, 'SET LOCAL outbox.lone_emit: refused in this transaction') || diag($said);
my $before = sql('SELECT count(*) FROM outbox_internal.log');
foreach my $time (1 .. 4)
{
	($out, $said) = pooled("BEGIN; $lone COMMIT;");
	is($out, "t\n", "$time: not in the next one of that session");
	unlike($said, qr/ERROR/, 'without an error');
}
is(sql('SELECT count(*) FROM outbox_internal.log') - $before, 4, 'they are there');
cmp_ok(sql('SELECT lone FROM outbox.lone_emit'), '>=', 4, 'and counted, whoever\'s session it was');
is(sql(q{SELECT count(DISTINCT pid) <= 2 FROM pg_stat_activity WHERE usename = 'app'}), 't', 'all of it in two sessions');
no_server_crashed($node);
done_testing();
