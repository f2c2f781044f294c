# One round of the chaos ring: writers, a nemesis with a schedule made from a seed, then peace, and the judge. The
# environment says which: OUTBOX_CHAOS_SEED, OUTBOX_CHAOS_SECONDS, OUTBOX_CHAOS_PROFILE (quiet: no faults; gentle: orderly
# things, after which nothing may arrive twice; wild), OUTBOX_CHAOS_ONLY (regex of fault names). scripts/chaos runs it; seed
# and schedule are printed first and can be replayed.
# matrix: A1 A1s A3 A4 A7 B1 B3 B5 B7 B13 B14 C8 D1 D2 D3 D9 E-1 F2 F5 S1 S2 S3 E-8
use strict;
use warnings;

use Outbox::Disk;
use Outbox::Faults;
use Outbox::History;
use Outbox::Nemesis;
use Outbox::Proxy;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seed = $ENV{OUTBOX_CHAOS_SEED} // 1;
my $seconds = $ENV{OUTBOX_CHAOS_SECONDS} // 30;
my $profile = $ENV{OUTBOX_CHAOS_PROFILE} // 'wild';
my $disk = Outbox::Disk::available();
my $only = $ENV{OUTBOX_CHAOS_ONLY};
my %have = (kafka => Outbox::Kafka::available(), disk => $disk);
diag("no Kafka here: $ENV{OUTBOX_NO_KAFKA}") if !$have{kafka};
diag('disk full is left out: not run as root') if !$disk && $profile eq 'wild';

my @steps = Outbox::Nemesis::schedule(seed => $seed, seconds => $seconds, profile => $profile, have => \%have, only => $only && qr/$only/);
my $schedule = join "\n", "chaos: seed $seed, $seconds s, $profile", map { Outbox::Nemesis::step_text($_) } @steps;
note($schedule);

# --- brokers behind proxies, a server, routes -------------------------------------------------------------------------
my $dir = PostgreSQL::Test::Utils::tempdir();
my $proxy = Outbox::Proxy->new;
my $redis = Outbox::Redis->start;
my $redis_port = $proxy->redis($redis);
my $kafka;
if ($have{kafka})
{
	$kafka = $proxy->kafka;
	$kafka->create_topic($_, 3) foreach qw(chaos.a chaos.b);
}
my $node = new_node(conf => "restart_after_crash = on\nfsync = off\nmax_connections = 40\ndeadlock_timeout = '100ms'\nwal_writer_delay = '2s'\n"
	  . "max_worker_processes = 20\noutbox.poll_interval = '500ms'\n");
if ($disk)
{
	$node->safe_psql('postgres', "CREATE TABLESPACE small LOCATION '" . Outbox::Disk::directory("chaos-$seed") . "'");
	$node->safe_psql('postgres', "ALTER TABLE outbox_internal.$_ SET TABLESPACE small") foreach qw(log progress tick);
}
$node->safe_psql('postgres', slurp_file("$ENV{OUTBOX_TOP}/test/chaos/writers.sql"));
redis_route($node, { port => $redis_port }, 'redis', lanes => 2);
my @destinations = ('redis');
if ($kafka)
{
	kafka_route($node, $kafka, 'kafka', lanes => 2);
	push @destinations, 'kafka';
}
my $nemesis = Outbox::Nemesis->new(node => $node, redis => $redis, kafka => $kafka, proxies => $proxy->{files}, disk => $disk);

# --- the run ----------------------------------------------------------------------------------------------------------
local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
local $ENV{PGOPTIONS} = '-c statement_timeout=20s';
my $writers = IPC::Run::start([ "$ENV{OUTBOX_TOP}/test/chaos/writers", $dir, $seed, 120 ], '<', \undef, '>>', "$dir/writers.out", '2>&1');
my $start = time;
$nemesis->run(@steps);
while (time - $start < $seconds) { sleep 0.1 }
append_to_file("$dir/stop", '');
$writers->finish;
$nemesis->heal;
delete $ENV{PGOPTIONS};
note(slurp_file("$dir/writers.log") =~ s/^(?!.*(?:processed:|failed|error|abort)).*\n//mgr) if -s "$dir/writers.log";

# --- peace ------------------------------------------------------------------------------------------------------------
my $up = time;
foreach my $statement (split /\n/, $node->safe_psql('postgres', 'SELECT chaos.verdict(gid) FROM pg_prepared_xacts'))
{
	$node->safe_psql('postgres', $statement);
}
my $idle;
for (1 .. 20)
{
	$idle = eval { $node->safe_psql('postgres', "SELECT outbox.wait_until_idle('5 s')") };
	last if ($idle // '') eq 't';
}
my $good = is($idle, 't', 'everything is delivered') or diag($node->safe_psql('postgres', 'SELECT * FROM outbox.lag'));
note(sprintf 'idle %.1f s after the last fault was healed', time - $up);

# --- the judge --------------------------------------------------------------------------------------------------------
my @intents = map { my %i; @i{qw(id key n topic payload)} = map { $_ eq '\N' ? undef : $_ } split /\t/, $_, -1; \%i }
  split /\n/, $node->safe_psql('postgres', 'COPY (SELECT id, key, n, topic, payload FROM chaos.intent) TO STDOUT') =~ s/\\\\/\\/gr;
my $history = Outbox::History->new(\@intents);
cmp_ok(scalar @intents, '>', $seconds * 20, 'writers committed ' . @intents . ' events');
verdict('the log', $history->judge_log([ split /\n/, $node->safe_psql('postgres', 'SELECT id FROM outbox_internal.log') ]));

sub read_redis
{
	my @seen;
	foreach my $topic (qw(chaos.a chaos.b))
	{
		push @seen, map {
			{ id => $_->{id}, key => $_->{key}, payload => $_->{payload}, topic => $topic, place => 0, bytes => bytes_of($_) }
		} @{ $redis->forget->entries($topic) };
	}
	return \@seen;
}

sub bytes_of { my ($entry) = @_; return join "\0", map { "$_=$entry->{$_}" } grep { $_ ne '_entry' } sort keys %$entry }

sub read_kafka
{
	my @seen;
	foreach my $topic (qw(chaos.a chaos.b))
	{
		foreach my $line (split /\n/, $kafka->kcat($topic, '-f', '%p|%K|%S|%k|%h|%s\n'))
		{
			my ($partition, $key_size, $size, $key, $headers, $payload) = split /\|/, $line, 6;
			my $where = $key_size < 0 ? '' : $partition; # without a key any partition will do, also for a repeat
			push @seen, { id => $headers =~ /(?:^|,)id=([-0-9a-f]+)/, key => $key_size < 0 ? undef : $key, payload => $size < 0 ? undef : $payload,
				topic => $topic, place => $partition, bytes => "$where|$key_size|$size|$key|" . join(',', sort split /,/, $headers) . "|$payload" };
		}
	}
	return \@seen;
}

foreach my $destination (@destinations)
{
	my %parked = map { split /\|/ } split /\n/, $node->safe_psql('postgres',
		"SELECT p.id, coalesce(p.error_class, 'none') FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE r.name = '$destination'");
	my %count;
	my @bad = $history->judge($destination eq 'redis' ? read_redis() : read_kafka(), duplicates => $profile eq 'wild', parked => \%parked, count => \%count);
	verdict("$destination ($count{arrived} events, $count{repeats} repeats, " . keys(%parked) . ' parked)', @bad);
}

sub verdict
{
	my ($what, @bad) = @_;
	my %kinds;
	$kinds{ $_->{kind} }++ foreach @bad;
	is(join(', ', map { "$_: $kinds{$_}" } sort keys %kinds), '', "$what: nothing lost, nothing made up, order, same bytes") and return;
	$good = 0;
	diag("$_->{kind}: $_->{text}") foreach grep { defined } @bad[ 0 .. 9 ];
	return;
}

if ($disk)
{
	is($node->safe_psql('postgres', q(SELECT count(*) > 0 FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace
		WHERE c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'outbox_internal.log'::regclass) AND spcname = 'small')), 't',
		'day tables were made on the small disk');
	my $full = $nemesis->{full};
	is($full->{missed}, 0, "wherever the disk was full emit() failed for it, $full->{struck} times");
}

# --- the server -------------------------------------------------------------------------------------------------------
my $log = slurp_file($node->logfile);
my $restarts = () = $log =~ /terminating any other active server processes/g;
cmp_ok($restarts, '<=', $nemesis->{crashes}, "the server restarted its sessions $restarts times, the nemesis killed $nemesis->{crashes} of its processes");
my @strange = grep { !/was terminated by signal (?:9|6: Aborted$)/ } $log =~ /(.*(?:terminated by signal|TRAP:|PANIC).*)/g;
is(join("\n", @strange), '', 'no process of the server died of anything else');
is(join(' ', @{ $nemesis->{survivors} // [] }), '', 'no process outlived its postmaster');
if ($profile ne 'wild')
{
	is(() = $log =~ /(outbox relay ends|SINK_PROTOCOL)/g, 0, 'no worker or sink lost its head');
}
my @row_names = map { "$Outbox::Nemesis::FAULTS{$_}{row} $_" } sort keys %{ $nemesis->{done} };
note("faults: $_") foreach @row_names;
if (!$good || !Test::More->builder->is_passing)
{
	diag("replay: make chaos SEED=$seed ROUND=$seconds KIND=$profile");
	diag($schedule);
	diag(join "\n", @{ $nemesis->{log} });
	system('cp', '-r', $dir, "$ENV{TESTDIR}/chaos") if $ENV{TESTDIR};
}
$proxy->stop;
done_testing();
