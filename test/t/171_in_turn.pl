# Eight databases on the default eight worker processes: keepers and relay workers take turns. Each one's events arrive,
# each one's emit is quick, a dead destination delays no other, parallel queries find workers, and users are told which
# number to set. With that number all of them run at once.
# matrix: C15 R22
use strict;
use warnings;

use IO::Socket::INET;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

my $databases = $ENV{OUTBOX_TURNS_DATABASES} // 8;
my $node = new_node(extension => 0, conf => "max_worker_processes = 8\n");
my $redis = Outbox::Redis->start;
my @names = map { "d$_" } 1 .. $databases;
# As many as there are places for relay workers: nobody answers there, though connections are made; and one where nobody
# listens.
my $hole = IO::Socket::INET->new(Listen => 128, LocalAddr => '127.0.0.1', Proto => 'tcp') or die "listen: $!";
my %dead = ((map { $_ => $hole->sockport } qw(d2 d3 d4)), d5 => 1);

sub sql { my ($database, $query) = @_; return $node->safe_psql($database, $query) }

my $slowest = 0;

sub emit
{
	my ($database, $n) = @_;
	my $began = time;
	sql($database, "SELECT outbox.emit('order', 1, 'order.created', '{\"n\": $n}')");
	my $took = time - $began;
	$slowest = $took if $took > $slowest;
	return;
}

sub delivered
{
	my ($n, $who) = @_;
	my $began = time;
	my %at;
	my $all = wait_until(sub
	{
		foreach my $name (@$who)
		{
			$at{$name} //= time - $began if $redis->xlen($name) >= $n;
		}
		return keys %at == @$who;
	}, 60);
	my ($last) = sort { $b <=> $a } values %at;
	diag(sprintf('%d events each: the last database after %.1f s', $n, $last // -1));
	diag('missing: ' . join ' ', grep { !exists $at{$_} } @$who) unless $all;
	return $all;
}

my %told;
foreach my $name (@names)
{
	sql('postgres', "CREATE DATABASE $name");
	my $port = $dead{$name} // $redis->{port};
	my (undef, undef, $stderr) = $node->psql($name, "CREATE EXTENSION outbox;
		CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$port');
		SELECT outbox.create_route('all', server => 'redis', topic => '$name')");
	$told{$name} = $stderr;
	emit($name, 1);
}
my @healthy = grep { !$dead{$_} } @names;
unlike($told{d1}, qr/WARNING/, 'the first database is told nothing');
my $last = $names[-1];
like($told{$last}, qr/WARNING:  there is not room for all background processes of outbox at once/, 'the last one is warned');
ok(delivered(1, \@healthy), 'the first event of each database is delivered');
my $needed = $databases * 2 + 4;
my ($status, $stdout, $stderr) = $node->psql($last, join ' ', map { "SELECT outbox.create_route('$_', server => 'redis', topic => 'more');" } qw(more still_more much_more));
like($stderr, qr/leaves room for 4 of [0-9]+ processes that.*max_worker_processes = [0-9]+ /s, 'create_route tells the number to set');
is(() = $stderr =~ /not room for all/g, 1, 'once, of three routes in a row that want no more processes');
sql($last, "SELECT outbox.drop_route('$_')") foreach qw(more still_more much_more);

# Everybody at once.
emit($_, 2) foreach @names;
ok(delivered(2, \@healthy), 'each database has its turn again');
is(sql($last, "SELECT outbox.wait_until_idle('60 s')"), 't', 'wait_until_idle() gets its turn, and knows when it is over');
my $id = sql($names[0], "SELECT outbox.emit('order', 1, 'order.created', '{}')");
is(sql($names[0], "SELECT outbox.wait_for('$id', '60 s')"), 't', 'so does wait_for()');
cmp_ok($slowest, '<', 3, sprintf('no emit waited: the slowest took %.0f ms', $slowest * 1000));

# What is shown.
my $shown = sql($last, "SELECT wanted, running <= 4, state, detail FROM outbox.process WHERE process = 'all'");
is($shown, ($databases * 2) . "|t|in turn|max_worker_processes = 8, less one for the launcher and outbox.reserved_processes = 3, leaves room for 4 of " . ($databases * 2)
	  . " processes that are wanted. Set max_worker_processes = $needed and restart the server.", 'outbox.process says what to do');
is(sql($last, "SELECT count(DISTINCT database), count(*) FROM outbox.process WHERE database IS NOT NULL"),
	"$databases|" . $databases * 2, 'and shows every database');
like(sql($last, 'SELECT string_agg(status || detail || hint, E\'\n\') FROM outbox.doctor()'),
	qr/Set max_worker_processes = $needed/, 'doctor() has the same number');
unlike(sql($last, 'SELECT string_agg(status || "check", \' \') FROM outbox.doctor()'), qr/problem/, 'and finds no problem');

# A reserve that no server has room for: the number to set is one that a server starts with.
sub reserve { my ($number) = @_; sql('postgres', $_) for "ALTER SYSTEM SET outbox.reserved_processes = $number", 'SELECT pg_reload_conf()'; return wait_for_value($node, 'SHOW outbox.reserved_processes', $number) }
ok(reserve(262_143), 'as many processes are left to others as can be said');
is(sql($last, "SELECT detail FROM outbox.process WHERE process = 'all'"), 'max_worker_processes = 8, less one for the launcher and outbox.reserved_processes = 262143, leaves room for 2 of '
	  . ($databases * 2) . ' processes that are wanted. No server has room for outbox.reserved_processes = 262143: set it to 3, and max_worker_processes = '
	  . $needed . ', and restart the server.', 'outbox.process says what a server can have');
like(sql($last, 'SELECT string_agg(hint, E\'\n\') FROM outbox.doctor()'), qr/set it to 3, and max_worker_processes = $needed,/, 'and doctor()');
ok(reserve(3), 'as it was');

# Parallel queries keep a share.
sql('postgres', 'CREATE TABLE big AS SELECT i FROM generate_series(1, 300000) i; ANALYZE big');
my $launched = sql('postgres', 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
	EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT count(*) FROM big WHERE i % 3 = 0');
like($launched, qr/Workers Launched: [12]/, 'a parallel query gets workers');

# A log that names databases, if it has anything to say.
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/database [0-9]{5}/, 'the server log names databases by name');

# With the number that was told all run at once.
$node->append_conf('postgresql.conf', "max_worker_processes = $needed\n");
$node->restart;
ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('outbox keeper', 'outbox relay')",
	$databases * 2, 60), 'with that number all run at once');
is(sql($last, "SELECT string_agg(DISTINCT state, ' ') FROM outbox.process"), 'running', 'and are shown so');
emit($_, 3) foreach @names;
ok(delivered(3, \@healthy), 'and publish');
no_server_crashed($node);
done_testing();
