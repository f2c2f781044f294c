# A server that may open few files, and more destinations than that leaves room for beside its data files: a relay worker's
# open data files make room for the sockets to its sink processes, and for what it waits with.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $destinations = 24;
my $redis = Outbox::Redis->start;
my $node = new_node(conf => "outbox.workers = 1\noutbox.max_destinations = 64\n");
redis_route($node, $redis, "r$_", topic => "'few_$_'") for 1 .. $destinations;

# What the server is started with; the test itself is not limited.
sub start_with
{
	my ($files) = @_;
	open my $limits, '<', "/proc/$$/limits" or die "limits: $!";
	my ($soft) = map { /^Max open files +(\d+)/ } <$limits>;
	$node->stop;
	system('prlimit', '--pid', $$, "--nofile=$files:") == 0 or die 'prlimit';
	$node->start;
	system('prlimit', '--pid', $$, "--nofile=$soft:") == 0 or die 'prlimit';
	return;
}
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $done = 0;
sub delivered
{
	my ($what) = @_;
	emit_counted($node, 'order', [ 'k' ], $done + 1, $done + 10);
	$done += 10;
	return ok(wait_idle($node, 60), $what)
	  || diag(sql('SELECT server, state, error_code, error_message FROM outbox.destination WHERE error_code IS NOT NULL'));
}
# Descriptors of the relay worker that are data files.
sub data_files { my ($pid) = @_; return scalar grep { (readlink $_ // '') =~ m{/(base|global)/\d} } glob "/proc/$pid/fd/*" }

start_with(80);
delivered("a server that may open 80 files sends to $destinations destinations");
my ($relay) = relay_pids($node);

for my $round (1 .. 3)
{
	# The whole outbox is looked through, so that there are more data files than may be open.
	emit_counted($node, 'order', [ 'k' ], $done + 1, $done + 10);
	$done += 10;
	wait_idle($node, 60);
	note('data files: ' . data_files($relay));
	my @sinks = sink_pids($node);
	kill 'KILL', @sinks[ 0 .. $#sinks / 2 ];
	delivered("round $round: destinations whose sink process was killed come back");
	ok(wait_until(sub { sink_pids($node) == $destinations }, 60), "round $round: all sink processes run");
}
is(join(' ', relay_pids($node)), $relay, 'by the same worker');
unlike(slurp_file($node->logfile), qr/Too many open files/, 'none of it wanted for a descriptor');

$node->append_conf('postgresql.conf', "outbox.workers = 2\n");
start_with(72);
delivered('a server that may open 72 files sends to them');
is(scalar relay_pids($node), 2, 'with two relay workers');
unlike(slurp_file($node->logfile), qr/Too many open files/, 'which want for none');

# Where it does come to that: as many as it has that are no data files, and one fewer than it needs to wait with.
sub limit { my ($pid, $files) = @_; return system('prlimit', '--pid', $pid, "--nofile=$files:") == 0 }
$node->append_conf('postgresql.conf', "outbox.workers = 1\n");
start_with(200);
delivered('a server that may open more');
my ($worker) = relay_pids($node);
my $told = -s $node->logfile;
ok(limit($worker, 4), 'its worker may open none any more');
kill 'KILL', sink_pids($node);
ok(wait_until(sub { slurp_file($node->logfile, $told) =~ /outbox relay LOG: .*Too many open files\n.*HINT: .*ulimit -n .*LimitNOFILE=/ }, 60), 'and says what has to be done');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.destination WHERE error_code = 'SINK_START' AND error_message ~ 'Too many open files: .*ulimit -n'),
	$destinations, 60), 'so do its destinations');
ok(limit($worker, 200), 'it may again');
delivered('and goes on');
is(join(' ', relay_pids($node)), $worker, 'the same worker');

no_server_crashed($node);
done_testing();
