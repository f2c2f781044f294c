# More background processes of one server than fit into 256 places, which once was all there was: nine databases with thirty-two
# relay workers each run at once, all are shown, each has its lanes and delivers, and nobody is told of too little room.
# matrix: R23
# ring: long
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my ($databases, $workers) = (9, 32);
my $node = new_node(extension => 0, conf => "outbox.workers = $workers\nmax_worker_processes = 400\noutbox.max_lanes = 1024\nshared_buffers = '16MB'\n");
my @names = map { "d$_" } 1 .. $databases;
sub sql { my ($database, $query) = @_; return $node->safe_psql($database, $query) }

# To the server log, which needs no sink processes.
foreach my $name (@names)
{
	sql('postgres', "CREATE DATABASE $name");
	my (undef, undef, $told) = $node->psql($name, "CREATE EXTENSION outbox; CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_log;
		SELECT outbox.create_route('all', server => 'nowhere', lanes => $workers)");
	unlike($told, qr/WARNING/, "$name: there is room");
}
ok(wait_for_value($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('outbox keeper', 'outbox relay')}, $databases * ($workers + 1), 180),
	$databases * ($workers + 1) . ' processes run');
foreach my $name (@names)
{
	ok(wait_for_value_in($name, 'SELECT count(DISTINCT owner), count(*) FROM outbox_internal.lane WHERE owner IS NOT NULL', "$workers|$workers", 60), "$name: each has a lane");
	sql($name, q{SELECT count(outbox.emit('t', i, 'x', '{}')) FROM generate_series(1, 200) i});
	is(sql($name, q{SELECT outbox.wait_until_idle('60 s')}), 't', "$name: events are delivered");
}
my $all = $databases * ($workers + 1);
is(sql($names[-1], q{SELECT wanted, running, state FROM outbox.process WHERE process = 'all'}), "$all|$all|running", 'all are shown');
is(sql($names[-1], q{SELECT sum(running) FROM outbox.process WHERE process IN ('keeper', 'relay')}), $all, 'one by one, too');
unlike(sql($names[-1], q{SELECT string_agg(status || ' ' || detail, E'\n') FROM outbox.doctor()}), qr/max_worker_processes/, 'doctor() asks for no more room');
no_server_crashed($node);
done_testing();

sub wait_for_value_in
{
	my ($database, $query, $wanted, $timeout) = @_;
	my $value = '';
	return 1 if wait_until(sub { $value = sql($database, $query); return $value eq $wanted }, $timeout);
	diag("waited for '$wanted', last saw '$value': $query");
	return 0;
}
