# What the chaos ring does to a running outbox: a schedule of faults made from a seed, and the hands that carry it out. The
# same seed, length and profile give the same schedule; what the server was doing at each moment is its own affair.
package Outbox::Nemesis;

use strict;
use warnings;

use Outbox::Disk;
use Outbox::Faults;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

# --- numbers from a seed: a 31-bit linear congruential generator, the same on every machine ---------------------------
sub new_random { my ($seed) = @_; my $state = ($seed * 2654435761 + 12345) % 2147483647; return \$state }
sub random
{
	my ($state) = @_;
	$$state = ($$state * 48271) % 2147483647;
	return $$state / 2147483647;
}
sub pick { my ($random, @list) = @_; return $list[ int(random($random) * @list) ] }
sub between { my ($random, $low, $high) = @_; return $low + random($random) * ($high - $low) }

# --- the faults -------------------------------------------------------------------------------------------------------
# profile: gentle (an orderly thing, after which nothing may arrive twice) or wild. weight; hold: seconds from inject to
# heal, as [low, high]; row: the row of docs/reliability.md; needs: kafka or disk. crash: kills a process of the server, so
# the postmaster restarts all.
our %FAULTS = (
	'sink kill' => { weight => 5, row => 'A1', inject => sub { $_[0]->kill_some('KILL', $_[0]->sinks) } },
	'sink abort' => { weight => 2, row => 'A1', inject => sub { $_[0]->kill_some('ABRT', $_[0]->sinks) } },
	'sink stop' => { weight => 3, row => 'F5', hold => [ 0.2, 4 ], inject => sub { $_[0]->stop_some($_[0]->sinks) }, heal => \&continue_all },
	'sink without memory' => { weight => 2, row => 'F2', inject => sub { $_[0]->starve($_[0]->sinks) } },
	'relay kill' => { weight => 2, row => 'A1', crash => 1, inject => sub { $_[0]->kill_some('KILL', $_[0]->pids('outbox relay')) } },
	'relay stop' => { weight => 2, row => 'F5', hold => [ 0.2, 4 ], inject => sub { $_[0]->stop_some($_[0]->pids('outbox relay')) }, heal => \&continue_all },
	'relay terminate' => { profile => 'gentle', weight => 3, row => 'A4', inject => sub { $_[0]->terminate('outbox relay') } },
	'keeper kill' => { weight => 1, row => 'A1', crash => 1, inject => sub { $_[0]->kill_some('KILL', $_[0]->pids('outbox keeper')) } },
	'keeper stop' => { weight => 1, row => 'F5', hold => [ 0.5, 4 ], inject => sub { $_[0]->stop_some($_[0]->pids('outbox keeper')) }, heal => \&continue_all },
	'keeper terminate' => { profile => 'gentle', weight => 1, row => 'A4', inject => sub { $_[0]->terminate('outbox keeper') } },
	'launcher kill' => { weight => 1, row => 'A1', crash => 1, inject => sub { $_[0]->kill_some('KILL', $_[0]->pids('outbox launcher')) } },
	'launcher terminate' => { profile => 'gentle', weight => 1, row => 'A4', inject => sub { $_[0]->terminate('outbox launcher') } },
	'backend kill' => { weight => 1, row => 'B7', crash => 1, inject => sub { $_[0]->kill_some('KILL', $_[0]->pids('client backend')) } },
	'backend terminate' => { profile => 'gentle', weight => 2, row => 'B1', inject => sub { $_[0]->terminate('client backend') } },
	'server immediate stop' => { weight => 2, row => 'B3', inject => sub { $_[0]->restart_server('immediate') } },
	'server restart' => { profile => 'gentle', weight => 1, row => 'A7', inject => sub { $_[0]->restart_server('fast') } },
	'postmaster kill' => { weight => 1, row => 'B3', inject => sub { $_[0]->kill_postmaster } },
	'redis kill' => { weight => 2, row => 'D1', inject => sub { $_[0]{redis}->kill9; $_[0]{redis}->restart } },
	'redis pause' => { weight => 2, row => 'D9', hold => [ 0.2, 4 ], inject => sub { $_[0]{redis}->pause }, heal => sub { $_[0]{redis}->cont } },
	'kafka kill' => { weight => 1, row => 'D2', needs => 'kafka', inject => sub { $_[0]{kafka}->kill9; $_[0]{kafka}->restart } },
	'kafka pause' => { weight => 2, row => 'D9', needs => 'kafka', hold => [ 0.2, 4 ], inject => sub { $_[0]{kafka}->pause }, heal => sub { $_[0]{kafka}->cont } },
	'reindex' => { profile => 'gentle', weight => 1, row => 'C8', inject => sub { $_[0]->each_leaf('REINDEX TABLE CONCURRENTLY LEAF') } },
	'vacuum full' => { profile => 'gentle', weight => 1, row => 'C8', inject => sub { $_[0]->each_leaf('VACUUM FULL LEAF') } },
	'cluster' => { profile => 'gentle', weight => 1, row => 'C8', inject => sub { $_[0]->each_leaf('CLUSTER LEAF USING INDEX') } },
	'freeze' => { profile => 'gentle', weight => 1, row => 'B15', inject => sub { $_[0]->each_leaf('VACUUM FREEZE LEAF') } },
	'workers' => { profile => 'gentle', weight => 2, row => 'S1', arg => sub { 1 + int(random($_[0]) * 4) },
		inject => sub { $_[0]->set('outbox.workers', $_[1]) } },
	'disabled' => { profile => 'gentle', weight => 1, row => 'S1', hold => [ 0.2, 3 ],
		inject => sub { $_[0]->set('outbox.enabled', 'off') }, heal => sub { $_[0]->set('outbox.enabled', 'on') } },
	'memory settings' => { profile => 'gentle', weight => 1, row => 'S1', arg => sub { pick($_[0], "'256kB'", "'1MB'", "'32MB'") },
		inject => sub { $_[0]->set('outbox.sort_mem', $_[1]); $_[0]->set('outbox.max_inflight', $_[1] eq "'256kB'" ? "'1MB'" : $_[1]) } },
	'lanes' => { profile => 'gentle', weight => 2, row => 'S2', arg => sub { 1 + int(random($_[0]) * 4) },
		inject => sub { $_[0]->sql("SELECT outbox.alter_route(name, lanes => $_[1]) FROM outbox.route WHERE lanes_wanted IS NULL") } },
	'server options' => { profile => 'gentle', weight => 1, row => 'S2', arg => sub { 100 + int(random($_[0]) * 100) },
		inject => sub { $_[0]->sql("ALTER SERVER redis OPTIONS ($_[0]{redis_option} connect_timeout '$_[1]00')") and $_[0]{redis_option} = 'SET' } },
	'clock back' => { profile => 'gentle', weight => 1, row => 'B13', inject => sub { Outbox::Faults::shift_clock(-3_600_000_000) } },
	'clock ahead' => { profile => 'gentle', weight => 1, row => 'B13', arg => sub { pick($_[0], 5, 120, 3600, 90_000) },
		inject => sub { Outbox::Faults::shift_clock($_[1] * 1_000_000) } },
	'route paused' => { profile => 'gentle', weight => 1, row => 'S3', hold => [ 0.3, 3 ],
		inject => sub { $_[0]->sql("SELECT outbox.pause(route => 'redis', reason => 'chaos')") },
		heal => sub { $_[0]->sql("SELECT outbox.resume(route => 'redis')") } },
	'topic paused' => { profile => 'gentle', weight => 2, row => 'S3', hold => [ 0.3, 4 ],
		inject => sub { $_[0]->sql("SELECT outbox.pause(route => name, topic => 'chaos.b', reason => 'chaos') FROM outbox.route") },
		heal => sub { $_[0]->sql("SELECT outbox.resume(route => name, topic => 'chaos.b') FROM outbox.route") } },
	'key paused' => { profile => 'gentle', weight => 2, row => 'S3', hold => [ 0.3, 4 ], arg => sub { 'k' . int(random($_[0]) * 300) },
		inject => sub { $_[0]->sql("SELECT outbox.pause(route => name, aggregate_type => 'chaos', aggregate_id => '$_[1]', reason => 'chaos') FROM outbox.route") },
		heal => sub { $_[0]->sql("SELECT outbox.resume(route => name, aggregate_type => 'chaos', aggregate_id => '$_[1]') FROM outbox.route") } },
	'redis stream of another type' => { weight => 3, row => 'E-8', hold => [ 0.3, 4 ],
		inject => sub { $_[0]->redis_commands([ 'RENAMENX', 'chaos.b', 'chaos.away' ], [ 'SETNX', 'chaos.b', 'not a stream' ]) },
		heal => \&stream_back },
	'disk full' => { weight => 2, row => 'B14', needs => 'disk', hold => [ 0.5, 3 ], inject => \&fill_disk, heal => \&free_disk },
	'fault point' => { weight => 8, row => 'A1', arg => \&pick_point, inject => sub { $_[0]->arm($_[1]) } },
);
foreach my $broker (qw(redis kafka))
{
	my %at = (weight => 2, needs => $broker eq 'kafka' ? 'kafka' : '', heal => sub { $_[0]->proxy($broker, 'pass') });
	$FAULTS{"$broker black hole"} = { %at, row => 'D9', hold => [ 0.3, 5 ], inject => sub { $_[0]->proxy($broker, 'hole') } };
	$FAULTS{"$broker slow"} = { %at, row => 'D9', hold => [ 0.5, 4 ], arg => sub { pick($_[0], '2000 5', '20000 50', '200000 200') },
		inject => sub { $_[0]->proxy($broker, "slow $_[1]") } };
	$FAULTS{"$broker cut"} = { %at, row => 'E-1', hold => [ 0.5, 1.5 ], arg => sub { int(random($_[0]) ** 3 * 60_000) },
		inject => sub { $_[0]->proxy($broker, "cut $_[1]") } };
	$FAULTS{"$broker unreachable"} = { %at, row => 'D1', hold => [ 0.3, 5 ], inject => sub { $_[0]->proxy($broker, 'refuse') } };
}

# A point and what happens there: in a process of the server killing is rare, for it costs everybody a second.
sub pick_point
{
	my ($random) = @_;
	my $points = Outbox::Faults::all_points();
	my $name = pick($random, sort keys %$points);
	my $in_sink = $points->{$name} =~ m{/sink/};
	my $action = pick($random, $in_sink ? qw(kill abort exit sleep stop) : qw(fail fail fail sleep sleep kill));
	my $count = 1 + int(random($random) ** 2 * 20);
	my $argument = int(random($random) * 300);
	return "$name $action $count $argument";
}

# --- a schedule -------------------------------------------------------------------------------------------------------

# %how: seed, seconds, profile (quiet, gentle or wild), have => { kafka => 1, disk => 1 }, only => regex of names.
sub schedule
{
	my (%how) = @_;
	return () if $how{profile} eq 'quiet';
	my $random = new_random($how{seed});
	my @names;
	foreach my $name (sort keys %FAULTS)
	{
		my $fault = $FAULTS{$name};
		next if $fault->{needs} && !$how{have}{ $fault->{needs} };
		next if $how{profile} eq 'gentle' && ($fault->{profile} // 'wild') ne 'gentle';
		next if $how{only} && $name !~ $how{only};
		push @names, ($name) x $fault->{weight};
	}
	my (@steps, %busy_until);
	my $at = 1.5;
	while ($at < $how{seconds} - 1)
	{
		my $name = pick($random, @names);
		my $fault = $FAULTS{$name};
		my $hold = $fault->{hold} ? between($random, @{ $fault->{hold} }) : 0;
		my $arg = $fault->{arg} ? $fault->{arg}->($random) : '';
		if (($busy_until{$name} // 0) <= $at)
		{
			push @steps, { at => $at, name => $name, arg => $arg, what => 'inject' };
			push @steps, { at => $at + $hold, name => $name, arg => $arg, what => 'heal' } if $fault->{heal};
			$busy_until{$name} = $at + $hold + 0.1;
		}
		$at += between($random, 0.2, 1.8);
	}
	return sort { $a->{at} <=> $b->{at} } @steps;
}

sub step_text { my ($step) = @_; return sprintf '%6.2f s  %-6s %s%s', $step->{at}, $step->{what}, $step->{name}, $step->{arg} eq '' ? '' : " ($step->{arg})" }

# --- carrying it out --------------------------------------------------------------------------------------------------

# %what: node, redis, kafka (or undef), proxies => { redis => control file, kafka => ... }, disk => there is one to fill.
sub new
{
	my ($class, %what) = @_;
	return bless { %what, stopped => [], beside => [], crashes => 0, redis_option => 'ADD', done => {}, full => { struck => 0, missed => 0 }, log => [] }, $class;
}

sub run
{
	my ($self, @steps) = @_;
	my $start = time;
	foreach my $step (@steps)
	{
		my $wait = $start + $step->{at} - time;
		sleep $wait if $wait > 0;
		my $fault = $FAULTS{ $step->{name} };
		my $before = time;
		my $done = eval { $fault->{ $step->{what} }->($self, $step->{arg}); 1 };
		push @{ $self->{log} }, sprintf '%6.2f s (%.2f s)  %s%s', $before - $start, time - $before, step_text($step), $done ? '' : " FAILED: $@";
		note($self->{log}[-1]);
		$self->{crashes} += 1 if $fault->{crash} && $step->{what} eq 'inject';
		$self->{done}{ $step->{name} }++ if $step->{what} eq 'inject' && $done;
	}
	return;
}

# Whatever is broken is whole again, and the settings are what they were.
sub heal
{
	my ($self) = @_;
	Outbox::Faults::disarm($_) foreach keys %{ Outbox::Faults::all_points() };
	$self->proxy($_, 'pass') foreach keys %{ $self->{proxies} };
	$self->continue_all;
	eval { $self->{redis}->cont };
	eval { $self->{kafka}->cont } if $self->{kafka};
	for (1 .. 50) { last if eval { $self->stream_back; 1 }; sleep 0.2 }
	$self->free_disk if $self->{disk};
	$_->kill_kill(grace => 5) foreach splice @{ $self->{beside} };
	for (1 .. 600) { last if eval { $self->{node}->psql('postgres', 'SELECT 1') == 0 }; sleep 0.1 }
	$self->sql(q(SELECT outbox.resume(r.name, p.server, p.topic, p.aggregate_type, p.aggregate_id)
		FROM outbox.pause p LEFT JOIN outbox.route r ON r.id = p.route_id));
	$self->set($_, undef) foreach qw(outbox.enabled outbox.workers outbox.sort_mem outbox.max_inflight);
	return;
}

# One statement, which may fail: the server is being shot at.
sub sql
{
	my ($self, $sql) = @_;
	my ($status, $out) = eval { $self->{node}->psql('postgres', "SET statement_timeout = '10s'; $sql") };
	return defined $status && $status == 0 ? ($out eq '' ? 1 : $out) : undef;
}

# By name in the process list: works while the server takes no connections.
sub pids
{
	my ($self, $type) = @_;
	open my $file, '<', $self->{node}->data_dir . '/postmaster.pid' or return ();
	chomp(my $postmaster = <$file> // return ());
	my $pattern = $type eq 'client backend' ? qr/^postgres: .*\[local\]|127\.0\.0\.1/ : qr/^postgres: .*\Q$type\E/;
	return sort { $a <=> $b } grep { command_line($_) =~ $pattern } child_pids($postmaster);
}

sub command_line
{
	my ($pid) = @_;
	open my $file, '<', "/proc/$pid/cmdline" or return '';
	local $/ = undef;
	return <$file> // '';
}

sub sinks { my ($self) = @_; return map { child_pids($_) } $self->pids('outbox relay') }

sub kill_some { my ($self, $signal, @pids) = @_; kill $signal, $pids[ time * 1000 % @pids ] if @pids; return }

sub stop_some
{
	my ($self, @pids) = @_;
	kill 'STOP', @pids;
	push @{ $self->{stopped} }, @pids;
	return;
}

sub continue_all
{
	my ($self) = @_;
	kill 'CONT', splice @{ $self->{stopped} };
	kill 'CONT', $self->sinks, map { $self->pids("outbox $_") } qw(relay keeper launcher);
	return;
}

# No more address space than it has now: the next allocation of some size fails, as on a machine that is out of memory.
sub starve { my ($self, @pids) = @_; system('prlimit', '--pid', $_, '--as=50000000') foreach @pids[ 0 .. 0 ]; return }

sub terminate
{
	my ($self, $type) = @_;
	$self->sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = '$type' AND pid <> pg_backend_pid()"
		  . ' ORDER BY random() LIMIT 1');
	return;
}

sub restart_server
{
	my ($self, $mode) = @_;
	$self->continue_all;
	$self->{node}->stop($mode, fail_ok => 1);
	$self->start_server;
	return;
}

sub start_server
{
	my ($self) = @_;
	for (1 .. 20) { return if $self->{node}->start(fail_ok => 1); sleep 0.5 }
	die 'the server does not start';
}

sub kill_postmaster
{
	my ($self) = @_;
	$self->continue_all;
	my @children = (sinks($self), map { $self->pids("outbox $_") } qw(relay keeper launcher));
	$self->{node}->kill9;
	for (1 .. 500) { last if !grep { kill 0, $_ } @children; sleep 0.02 }
	push @{ $self->{survivors} }, grep { kill 0, $_ } @children;
	$self->start_server;
	return;
}

sub each_leaf
{
	my ($self, $format) = @_;
	my $script = '';
	my $leaves = $self->sql(q(SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'outbox_internal.log'::regclass)) // return;
	foreach my $leaf (grep { /^outbox_internal\.log_\d+$/ } split /\n/, $leaves)
	{
		my $index = $leaf =~ s/^outbox_internal\.(.*)/${1}_xid/r; # an index's name is its table's with _xid
		$script .= ($format =~ s/LEAF/$leaf/r =~ s/INDEX$/$index/r) . ";\n";
	}
	# Beside the other faults: it may wait for long transactions.
	push @{ $self->{beside} }, IPC::Run::start([ 'psql', '-XAtq', '-d', $self->{node}->connstr('postgres') ], '<', \$script, '>&', \my $out);
	return;
}

sub set
{
	my ($self, $name, $value) = @_;
	my $change = defined $value ? "SET $name = $value" : "RESET $name";
	eval { $self->{node}->psql('postgres', "ALTER SYSTEM $change") };
	$self->sql('SELECT pg_reload_conf()');
	return;
}

sub proxy
{
	my ($self, $broker, $line) = @_;
	my $control = $self->{proxies}{$broker} // return;
	open my $file, '>', "$control.new" or die "$control: $!";
	print $file "$line\n";
	close $file;
	rename "$control.new", $control;
	return;
}

sub arm
{
	my ($self, $what) = @_;
	my ($name, $action) = split / /, $what, 2;
	$self->{crashes}++ if $action =~ /^kill/ && Outbox::Faults::all_points()->{$name} !~ m{/sink/};
	Outbox::Faults::arm($name, $action);
	return;
}

# A transaction that does not fit, and rolls back in any case, tells whether it is really full: what another fault was
# about to give back (REINDEX, VACUUM FULL) is taken too.
sub fill_disk
{
	my ($self) = @_;
	foreach my $try (1 .. 5)
	{
		Outbox::Disk::fill();
		my $err = '';
		my ($status) = eval { $self->{node}->psql('postgres', q(SET statement_timeout = '5s'; BEGIN; SELECT outbox.emit_bytes('chaos', 'k0', 'probe',
			(SELECT string_agg(sha512(random()::text::bytea), '') FROM generate_series(1, 8000))); ROLLBACK),
			stderr => \$err, extra_params => [ '--set=VERBOSITY=sqlstate' ]) };
		if ($err =~ /53100/) { $self->{full}{struck}++; return }
		return if !defined $status || $status != 0;    # it is being shot at, too
	}
	$self->{full}{missed}++;
	return;
}

# In one transaction of Redis; gives up where it does not answer.
sub redis_commands
{
	my ($self, @commands) = @_;
	my $redis = $self->{redis}->connect_to;
	local $SIG{ALRM} = sub { die "Redis does not answer\n" };
	alarm 3;
	my $result = eval { $redis->command('MULTI'); $redis->command(@$_) foreach @commands; $redis->command('EXEC') };
	alarm 0;
	die $@ if !$result;
	return $result;
}

# The stream itself takes its name back from what stands in its place.
sub stream_back
{
	my ($self) = @_;
	$self->redis_commands([ 'EVAL', q(if redis.call('TYPE', KEYS[1]).ok == 'string' then redis.call('DEL', KEYS[1]) end
		if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('RENAMENX', KEYS[2], KEYS[1]) end return 1), 2, 'chaos.b', 'chaos.away' ]);
	return;
}

sub free_disk { Outbox::Disk::free(); return }

1;
