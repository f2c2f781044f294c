# A sink process in a memory cgroup that is too small for what it is given: the kernel's OOM killer takes it and nobody else,
# again and again; no session notices, count and order hold, and the lane is back at once when there is memory.
#
# Needs a cgroup of its own, made and handed over by whoever runs the tests, because processes are moved into it:
#   OUTBOX_TEST_CGROUP=DIRECTORY scripts/test test/t/121_sink_out_of_memory.pl
# an empty memory cgroup (version 1, or 2 with the memory controller) whose files the user postgres may write. See
# CONTRIBUTING.md. (That the kernel would choose the sink process is shown by 094_sink_containment.pl without one.)
# matrix: F2
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $group = $ENV{OUTBOX_TEST_CGROUP};
plan(skip_all => 'no memory cgroup was given: OUTBOX_TEST_CGROUP') if !$group;
my ($limit, $swap) = -e "$group/memory.max" ? ('memory.max', 'memory.swap.max') : ('memory.limit_in_bytes', undef);
plan(skip_all => "$group is no memory cgroup that may be written to") if !-w "$group/cgroup.procs" || !-w "$group/$limit";

sub put
{
	my ($file, $text) = @_;
	open my $handle, '>', "$group/$file" or die "$group/$file: $!";
	syswrite $handle, "$text\n" or die "$group/$file: $!";
	close $handle;
	return;
}
sub kills { my ($file) = grep { -e } "$group/memory.events", "$group/memory.oom_control"; return slurp_file($file) =~ /^oom_kill (\d+)/m ? $1 : 0 }

my $node = new_node(conf => "restart_after_crash = off\noutbox.max_inflight = '32MB'\n");
my $redis = Outbox::Redis->start;
Outbox::Ledger::install($node);
redis_route($node, $redis, 'redis', topic => q('ledger'), aggregate_types => q('{order}'));
redis_route($node, $redis, 'big', topic => q('big'), aggregate_types => q('{big}'));
my $load = Outbox::Ledger::start_load($node, seconds => 300, clients => 2, rate => 20);
sub flowing { my $before = $redis->xlen('ledger'); return wait_until(sub { $redis->xlen('ledger') > $before }, 30) }
ok(flowing(), 'events flow');

put($swap, 0) if $swap && -w "$group/$swap";
my $before = kills();
my $session = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
foreach my $round (1 .. 3)
{
	put($limit, 12 * 1024 * 1024);
	my $killed = kills();
	put('cgroup.procs', $_) foreach sink_pids($node);
	$redis->pause;    # what it is given stays with it
	$node->safe_psql('postgres', q(SELECT count(outbox.emit_text('big', i::text, 'x', repeat(md5(random()::text), 16000))) FROM generate_series(1, 60) i));
	ok(wait_until(sub { kills() > $killed }, 30), "round $round: the kernel kills it");
	my $start = time;
	$redis->cont;
	ok(flowing(), sprintf 'round %d: events flow again after %.2f s', $round, time - $start);
}
cmp_ok(kills() - $before, '>=', 3, 'the OOM killer was at work');
ok(Outbox::Ledger::end_load($load), 'no session noticed');
ok(wait_idle($node, 60), 'everything is delivered');
Outbox::Ledger::check($node, 'Redis', $redis->column('ledger', 'payload'), duplicates => 1);
my %ids = map { $_ => 1 } @{ $redis->column('big', 'id') };
is(scalar(keys %ids), 180, 'and what it was killed over');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox.parked'), '0', 'and none of it was blamed on an event');
is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $session, 'the server did not restart');
no_server_crashed($node);
done_testing();
