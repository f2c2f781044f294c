# A sink process in a memory cgroup that is too small for what it is given: the kernel's OOM killer kills it and no
# other process, again and again; no session notices, count and order hold, and the lane is back at once when there is
# memory.
#
# It moves processes into a memory control group, which no test makes on your machine. OUTBOX_TEST_KERNEL=1 runs it in a kernel
# of its own (test/kernel/run; one to four minutes, so not in every run); OUTBOX_TEST_CGROUP=DIRECTORY gives it an empty group
# (version 1, or 2 with the memory controller) that the user postgres may write to. That the kernel would choose the sink
# process is shown by 094_sink_containment.pl without one.
# matrix: F2
use strict;
use warnings;

use Test::More;

my $group;

# Before PostgreSQL::Test::Utils takes the output over.
BEGIN
{
	$group = $ENV{OUTBOX_TEST_CGROUP};
	if (!$group)
	{
		plan(skip_all => 'no control group was given: OUTBOX_TEST_CGROUP or OUTBOX_TEST_KERNEL') if !$ENV{OUTBOX_TEST_KERNEL};
		my $run = "$ENV{OUTBOX_TOP}/test/kernel/run";
		exec $run, $^X, $0 or die "$run: $!";
	}
}

use Outbox::Ledger;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep time);

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

my $node = new_node(conf => "restart_after_crash = off\nshared_buffers = 16MB\nmax_connections = 20\n");
my $redis = Outbox::Redis->start;
Outbox::Ledger::install($node);
redis_route($node, $redis, 'redis', topic => q('ledger'), aggregate_types => q('{order}'));
redis_route($node, $redis, 'big', topic => q('big'), aggregate_types => q('{big}'));
my $load = Outbox::Ledger::start_load($node, seconds => 300, clients => 1, rate => 5);
sub flowing { my $before = $redis->xlen('ledger'); return wait_until(sub { $redis->xlen('ledger') > $before }, 120) }
ok(flowing(), 'events flow');

put($swap, 0) if $swap && -w "$group/$swap";
my $large = 3;    # events of 900 kB: with what is made of one it is more than the group has
my $before = kills();
my $session = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
foreach my $round (1 .. 3)
{
	put($limit, 1024 * 1024);
	my $killed = kills();
	put('cgroup.procs', $_) foreach sink_pids($node);
	$redis->pause;    # what it is given stays with it
	$node->safe_psql('postgres', qq(SELECT count(outbox.emit_text('big', i::text, 'x', repeat(md5(random()::text), 28000))) FROM generate_series(1, $large) i));
	ok(wait_until(sub { kills() > $killed }, 120), "round $round: the kernel kills it");
	my $start = time;
	$redis->cont;
	ok(flowing(), sprintf 'round %d: events flow again after %.2f s', $round, time - $start);
}
cmp_ok(kills() - $before, '>=', 3, 'the OOM killer was at work');
ok(Outbox::Ledger::end_load($load), 'no session noticed');
ok(wait_idle($node, 120), 'everything is delivered');
Outbox::Ledger::check($node, 'Redis', $redis->column('ledger', 'payload'), duplicates => 1);
my %ids = map { $_ => 1 } @{ $redis->column('big', 'id', 5) };
is(scalar(keys %ids), 3 * $large, 'and what it was killed over');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'and none of it was blamed on an event');
is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $session, 'the server did not restart');
no_server_crashed($node);
done_testing();
