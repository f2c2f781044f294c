# The postmaster is the first process of a container, and whatever loses its parent becomes its child; one that does not end with 0 or
# 1 it takes for a server process that crashed, and ends all sessions. So no session leaves a sink's process behind that has to be
# killed, however it ends, and the image's health probe is one process.
# matrix: A1s
use strict;
use warnings;

use IO::Socket::INET;
use IPC::Run ();
use Outbox::Test;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

my ($machine) = (POSIX::uname())[4];
my %prctl = (x86_64 => 157, aarch64 => 167);
plan skip_all => "the number of prctl() on $machine is not known here" if !$prctl{$machine};
my $node = new_node(conf => "restart_after_crash = on\n");
$node->stop;
# A reaper of its orphans (PR_SET_CHILD_SUBREAPER), as the first process is: that needs no rights.
my $files = PostgreSQL::Test::Utils::tempdir();
my $bin = "$files/reaper";
chomp(my $bindir = `pg_config --bindir`);
append_to_file($bin, "#!/usr/bin/perl\nsyscall($prctl{$machine}, 36, 1, 0, 0, 0) == 0 or die \$!;\nexec '$bindir/postgres', \@ARGV;\n");
chmod 0755, $bin or die $!;
sub start
{
	system_or_bail('pg_ctl', '-w', '-s', '-p', $bin, '-D', $node->data_dir, '-l', $node->logfile, 'start');
	$node->_update_pid(1);
	return;
}
start();
my $silent = IO::Socket::INET->new(Listen => 50, LocalAddr => '127.0.0.1') or die $!;
$node->safe_psql('postgres', "CREATE SERVER silent FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '@{[$silent->sockport]}')");

# A session that asks, and has the program running that does: its process, and the program's.
sub comm { return eval { slurp_file("/proc/$_[0]/comm") } // '' }
sub ask
{
	my ($statement) = @_;
	my %asking = (said => '');
	$asking{psql} = IPC::Run::start([ 'psql', '-X', '-d', $node->connstr('postgres'), '-c', $statement ], '<', \undef, '>&', \$asking{said});
	wait_until(sub {
		foreach my $backend (child_pids($node->{_pid}))
		{
			my ($program) = grep { comm($_) =~ /^outbox-sink/ } child_pids($backend);
			@asking{qw(backend program)} = ($backend, $program) if $program;
		}
		return $asking{program};
	}, 60) or die "no program is started: $asking{said}";
	return \%asking;
}
sub is_there { my ($pid) = @_; return -d "/proc/$pid" }
my $question = q(SELECT * FROM outbox.test_server('silent', timeout => '60 s'));
foreach my $stopped (0, 1)
{
	my $what = 'a session that is terminated' . ($stopped ? ' and whose program hangs' : '');
	my $asking = ask($question);
	kill 'STOP', $asking->{program} if $stopped;
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($asking->{backend})");
	ok(wait_until(sub { !is_there($asking->{backend}) && !is_there($asking->{program}) }, 60), "$what: it has gone, and its program");
	eval { $asking->{psql}->finish };
	like($asking->{said}, qr/terminating connection due to administrator command/, 'as it was told to');
	# The postmaster has taken note of whoever ended by the time that it lets another in.
	wait_for_value($node, 'SELECT 1', 1, 60);
	is(crash_restarts($node), 0, "$what: no other session was ended");
}
# A fast stop, too.
my $asking = ask($question);
$node->stop('fast');
eval { $asking->{psql}->finish };
no_server_crashed($node, 'nor does the server crash as it is stopped');
start();

# The probe. Its time is over when a server does not answer: the one that is asked for here never does.
sub probe
{
	my ($port, $host) = @_;
	local $ENV{PGPORT} = $port;
	local $ENV{PGHOST} = $host;
	my $pid = fork() // die $!;
	return $pid if $pid;
	open STDERR, '>', "$files/said" or die $!;
	exec "$ENV{OUTBOX_TOP}/packaging/container/healthy" or die $!;
}
sub verdict { waitpid probe($node->port, $node->host), 0; return ($?, slurp_file("$files/said")) }
foreach my $signal ('TERM', 'KILL')
{
	my $pid = probe($silent->sockport, '127.0.0.1');
	my @its;
	wait_until(sub { return @its = grep { comm($_) =~ /^psql/ } $pid, child_pids($pid) }, 60) or die 'nobody asks';
	kill $signal, $pid;
	waitpid $pid, 0;
	is(join(' ', grep { is_there($_) } @its), '', "a probe that is ended by SIG$signal leaves no process");
	kill 'KILL', grep { is_there($_) } @its;
}
# What it finds.
is((verdict())[0], 0, 'it is content with a server that has no route yet');
$node->safe_psql('postgres', q(SELECT outbox.create_route('silent', server => 'silent')));
$node->safe_psql('postgres', q(SET outbox.lone_emit = allow; SELECT outbox.emit('t', 'k', 'e', '1')));
close $silent;
my ($status, $said);
ok(wait_until(sub { ($status, $said) = verdict(); return $status != 0 }, 120), 'and not with a destination that is away');
like($said, qr/^ERROR: .*destination: .*silent/s, 'which it names') or diag($said);
unlike(slurp_file($node->logfile), qr/ERROR:  [^\n]*destination: /, 'and the server does not write that down each time');
no_server_crashed($node);
$node->stop;
done_testing();
