# Ten thousand signals at random moments of a load, at relay worker, keeper, launcher and sink process: those that stop a
# process, those that make it read its configuration, those of the server's own machinery, and interrupted waits. No
# process crashes, no session notices, nothing is lost, also while the destination goes away and comes back in the middle.
# A worker that is slow to stop is waited for: nothing of ours sends SIGKILL to a process of the server.
# matrix: A9 A10 E-10
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Nemesis;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time usleep);

my $signals = $ENV{OUTBOX_TEST_SIGNALS} // 10_000;
my $node = new_node(conf => "restart_after_crash = off\noutbox.workers = 2\n");
my $redis = Outbox::Redis->start;
Outbox::Ledger::install($node);
redis_route($node, $redis, 'redis', topic => q('storm'), lanes => 2);
my $nemesis = Outbox::Nemesis->new(node => $node);
sub flowing { my $before = $redis->xlen('storm'); return wait_until(sub { $redis->xlen('storm') > $before }, 60) }

my $load = Outbox::Ledger::start_load($node, seconds => 300, clients => 2, rate => 30);
ok(flowing(), 'events flow');
my $start = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');

# --- the storm --------------------------------------------------------------------------------------------------------
my $random = Outbox::Nemesis::new_random($ENV{OUTBOX_TEST_SEED} // 7);
my %of = (
	'outbox relay' => [ ('HUP') x 10, ('USR1') x 20, ('INT') x 2, ('USR2') x 2, 'CONT' ],
	'outbox keeper' => [ ('HUP') x 10, ('USR1') x 20, ('INT') x 2, ('USR2') x 2, 'CONT' ],
	'outbox launcher' => [ ('HUP') x 10, ('USR1') x 20, ('INT') x 2, ('USR2') x 2, 'CONT' ],
	# A process that goes on after a stop has its waits interrupted, with or without a handler.
	'sink' => [ qw(HUP TERM INT USR1 USR2 ALRM PIPE CHLD WINCH), ('STOP CONT') x 9 ]);
my @kinds = sort keys %of;
my (%sent, %pids);
my $terms = 0;
my $away = 0;
my $looked = 0;
for (my $number = 0; $number < $signals;)
{
	# Those that were ended are back in a moment, under other numbers.
	if (time - $looked > 0.2)
	{
		$pids{$_} = [ $_ eq 'sink' ? $nemesis->sinks : $nemesis->pids($_) ] foreach @kinds;
		$looked = time;
	}
	my $kind = Outbox::Nemesis::pick($random, @kinds);
	my $pid = Outbox::Nemesis::pick($random, @{ $pids{$kind} });
	my $signal = Outbox::Nemesis::pick($random, @{ $of{$kind} });
	my $term = $kind ne 'sink' && $number % 400 == 0;
	$signal = 'TERM' if $term;
	usleep(200);
	next if !defined $pid || !kill((split ' ', $signal)[0], $pid);
	$sent{"$signal to $kind"}++;
	$terms++ if $term;
	$number++;
	if ($number == int($signals * 0.3)) { $redis->kill9; $away = time }
	if ($number == int($signals * 0.6)) { $redis->restart; $away = time - $away }
	kill 'CONT', $pid if $signal =~ /CONT/;
}
$nemesis->continue_all;
note(join ', ', map { "$sent{$_} $_" } sort keys %sent);
cmp_ok($terms, '>', 10, "$terms of the signals were SIGTERM to a process of the server");
cmp_ok($away, '>', 0.1, sprintf 'the destination was away for %.1f s of the storm', $away);
ok(flowing(), 'events flow again');
ok(Outbox::Ledger::end_load($load), 'no session noticed anything');
ok(wait_idle($node, 90), 'everything is delivered');
Outbox::Ledger::check($node, 'Redis', $redis->column('storm', 'payload'), duplicates => 1);
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'and none of it was blamed on an event');
is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $start, 'the server did not restart');

# --- slow to stop -----------------------------------------------------------------------------------------------------
ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'", 2, 60), 'both workers are there');
my @relays = $nemesis->pids('outbox relay');
kill 'STOP', @relays;
my $mark = -s $node->logfile;
$node->safe_psql('postgres', 'ALTER SYSTEM SET outbox.enabled = off');
$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
my $stop = IPC::Run::start([ 'pg_ctl', '-D', $node->data_dir, '-m', 'fast', '-w', 'stop' ], '<', \undef, '>&', \my $said);
sleep 4; # in which somebody who does not want to wait would have killed them
is(scalar(grep { kill 0, $_ } @relays), scalar @relays, 'workers that are asked to stop, and do not, are waited for');
kill 'CONT', @relays;
ok($stop->finish, 'a fast stop ends when they do');
like(slurp_file($node->logfile, $mark), qr/database system is shut down/, 'in good order');
$node->_update_pid(0);
no_server_crashed($node);

# Who kills in the sources: a worker its own sink process, and fault points themselves.
my @killers;
foreach my $file (glob "$ENV{OUTBOX_TOP}/src/*/*.cpp $ENV{OUTBOX_TOP}/src/*/*/*.cpp")
{
	push @killers, $file =~ s{.*/src/}{}r if slurp_file($file) =~ /\bkill\(.*SIG(?:KILL|QUIT|ABRT)/;
}
is(join(' ', @killers), 'base/fault_point.cpp sink/child_process.cpp', 'only a sink process is ever killed, by its own worker');
done_testing();
