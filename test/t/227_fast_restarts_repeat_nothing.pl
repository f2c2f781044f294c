# A fast shutdown at a random moment under load, thirty times in a row: workers wait for what is in flight and note it, so
# nothing is sent again, and nothing is missing. Only where a destination takes longer than the 1.8 s that a worker waits
# (here: a machine that is busy) may what it had in hand come again.
# matrix: A7r
# ring: long
use strict;
use warnings;

use IPC::Run ();
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $restarts = 30;
my $waits = 1.8;    # src/worker/relay_worker.cpp: kStopMs

my $redis = Outbox::Redis->start;
my $node = new_node(conf => "outbox.workers = 2\n");
redis_route($node, $redis, 'r', lanes => 8, topic => "'s'");
my $script = PostgreSQL::Test::Utils::tempdir() . '/load.sql';
append_to_file($script, "\\set k random(1, 500)\n"
	  . "SELECT count(outbox.emit_text('t', (:k + i)::text, 'e', 'x')) FROM generate_series(1, 20) i;\n");

my ($known, $slow, $moving) = (0, 0, 0);
my @repeated;
foreach my $n (1 .. $restarts)
{
	my $load = IPC::Run::start([ 'pgbench', '-n', '-c', 3, '-T', 300, '-f', $script, $node->connstr('postgres') ],
		'>', \my $out, '2>', \my $err);
	my $enough = $redis->xlen('s') + 200 + int(rand(2_000));
	ok(wait_until(sub { $redis->xlen('s') >= $enough }, 60), "restart $n: events flow") or last;
	my $begun = time;
	my $before = $redis->xlen('s');
	$node->stop('fast');
	my $took = time - $begun;
	$moving++ if $redis->xlen('s') > $before;
	$load->finish;
	$node->start;
	ok(wait_idle($node), "restart $n: all is delivered") or last;
	my $repeats = $redis->xlen('s') - $node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.log');
	note(sprintf("restart %d: %.1f s, %d events, %d repeated", $n, $took, $redis->xlen('s'), $repeats - $known));
	push @repeated, $n if $repeats != $known && $took < $waits;
	$slow++ if $took >= $waits;
	$known = $repeats;
}
is("@repeated", '', 'no stop in time repeated anything');
cmp_ok($slow, '<', $restarts, 'not every stop was late');
cmp_ok($moving, '>', 0, 'some met events on their way');
my %there = map { $_->{id} => 1 } @{ $redis->entries('s') };
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.log'), scalar(keys %there), 'nothing is missing, nothing made up');
no_server_crashed($node);
done_testing();
