# Destinations whose connections are reset twice a second, under load: once warm, neither the relay worker nor a sink process
# grows, in memory, descriptors or threads; and nothing is lost. OUTBOX_TEST_SOAK_SECONDS=86400 makes a day of it.
# matrix: F7
# ring: long
use strict;
use warnings;

use List::Util qw(max min sum);
use Outbox::Nemesis;
use Outbox::Proxy;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{OUTBOX_TEST_SOAK_SECONDS} // 20;
my $warm = min(7, $seconds / 3);
my $dir = PostgreSQL::Test::Utils::tempdir();
my $proxy = Outbox::Proxy->new;
my $redis = Outbox::Redis->start(conf => [ 'appendonly no' ]);
my $redis_port = $proxy->redis($redis);
my $kafka;
if (Outbox::Kafka::available())
{
	$kafka = $proxy->kafka;
	$kafka->create_topic('flapping', 2);
}
my $node = new_node(conf => "fsync = off\nrestart_after_crash = off\noutbox.workers = 1\noutbox.max_inflight = '4MB'\n");
redis_route($node, { port => $redis_port }, 'redis', topic => q('flapping'));
kafka_route($node, $kafka, 'kafka', topic => q('flapping')) if $kafka;
my $nemesis = Outbox::Nemesis->new(node => $node, proxies => $proxy->{files});

# Events of a kilobyte, some 1500 a second.
my $script = "$dir/load.pgbench";
append_to_file($script, "SELECT count(outbox.emit_text('order', (i % 50)::text, 'x', repeat(md5(random()::text), 30))) FROM generate_series(1, 25) i;\n");
my $load = IPC::Run::start([ 'pgbench', '-n', '-c', 1, '-T', $seconds + 60, '-R', 60, '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
	'<', \undef, '>&', \my $load_said);
# How many events were acknowledged by each.
sub delivered
{
	return map { $_ => $node->safe_psql('postgres', "SELECT count(*) FROM outbox_internal.log WHERE created_at <= (SELECT delivered_to FROM outbox.lag WHERE route = '$_' AND side IS NULL)") }
	  'redis', $kafka ? 'kafka' : ();
}
sub flowing { my %delivered = delivered(); return !grep { $_ == 0 } values %delivered }
ok(wait_until(\&flowing, 30), 'events flow to every destination');

# --- a process's possessions ------------------------------------------------------------------------------------------
my ($relay) = relay_pids($node);
sub comm { my ($pid) = @_; open my $file, '<', "/proc/$pid/comm" or return 'gone'; chomp(my $name = <$file> // ''); return $name }
my %processes = (relay => $relay, map { comm($_) => $_ } sink_pids($node));
is(keys %processes, $kafka ? 3 : 2, join(', ', sort keys %processes) . ' are watched');
sub look
{
	my ($pid) = @_;
	my %have;
	open my $file, '<', "/proc/$pid/status" or return {};
	# Of what it has touched in shared_buffers there is ever more.
	while (<$file>) { $have{memory} = $1 if /^RssAnon:\s+(\d+)/; $have{threads} = $1 if /^Threads:\s+(\d+)/ }
	# The server keeps files of its tables open, up to a number of its own. Of a sink process whose descriptors are nobody's
	# business the directory's size tells how many there are, since Linux 6.2.
	my @open = map { readlink // '' } glob "/proc/$pid/fd/*";
	$have{descriptors} = @open ? scalar grep { !m{^/} } @open : (stat "/proc/$pid/fd")[7];
	note("$pid $have{memory} $have{descriptors} $have{threads}");
	return \%have;
}

# --- the flapping -----------------------------------------------------------------------------------------------------
my (%seen, $resets);
my %before = delivered();
my $start = time;
# At first as much is in flight as may be: nothing gets through.
$nemesis->proxy($_, 'refuse') foreach keys %{ $proxy->{files} };
sleep 3; # in which everything that comes fails, too
for (my $turn = 1; time - $start < $seconds; $turn++)
{
	# In turn: in the middle of a request, and for a while altogether.
	foreach my $broker (keys %{ $proxy->{files} }) { $nemesis->proxy($broker, $turn % 2 ? 'cut ' . ($turn * 7919 % 50_000) : 'refuse') }
	sleep 0.1;
	if ($turn % 2 == 0) { $nemesis->proxy($_, 'pass') foreach keys %{ $proxy->{files} } }
	$resets++;
	sleep 0.3;
	foreach my $name (keys %processes) { push @{ $seen{$name} }, look($processes{$name}) if time - $start >= $warm }
	# What is kept there is not what is looked at.
	$redis->command('XTRIM', 'flapping', 'MAXLEN', 1000) if $seconds > 60;
	sleep max(0, $start + 3 + $turn / 2 - time);
}
my %after = delivered();
cmp_ok($after{$_} - $before{$_}, '>', $seconds, "$_ took " . ($after{$_} - $before{$_}) . " events in $seconds s") foreach sort keys %after;
$nemesis->proxy($_, 'pass') foreach keys %{ $proxy->{files} };
$load->signal('TERM');
$load->finish;
ok(wait_idle($node, 90), "everything is delivered after $resets resets");
my $emitted = $node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.log');
if ($seconds <= 60)
{
	my %ids = map { $_ => 1 } @{ $redis->column('flapping', 'id') };
	is(scalar(keys %ids), $emitted, "all $emitted events are in Redis");
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), 0, 'no event was charged');

# --- the slopes -------------------------------------------------------------------------------------------------------
# The medians of the middle third and of the last: in the first, buffers grow to what they need. That takes a worker a
# minute, steps of some megabytes that later go back: in a short run its memory is held to a bound only, in a long one to
# its slope.
sub growth
{
	my ($what, @looks) = @_;
	my @values = map { $_->{$what} } @looks;
	my $third = max(1, int(@values / 3));
	my ($first, $last) = map { (sort { $a <=> $b } @$_)[ $third / 2 ] } [ @values[ $third .. 2 * $third - 1 ] ], [ @values[ -$third .. -1 ] ];
	return ($first, $last);
}
foreach my $name (sort keys %processes)
{
	my @looks = grep { defined $_->{memory} } @{ $seen{$name} };
	cmp_ok(scalar @looks, '>=', 5, "$name: the same process all the time, seen " . @looks . ' times');
	my ($first, $last) = growth('memory', @looks);
	cmp_ok($last, '<', 64 * 1024, "$name: its own memory is bounded: $last kB");
	cmp_ok($last - $first, '<', 6 * 1024, "$name: its own memory went from $first to $last kB") if $seconds >= 60;
	foreach my $what (qw(descriptors threads))
	{
		($first, $last) = growth($what, @looks);
		cmp_ok($last - $first, '<=', 2, "$name: $what went from $first to $last");
	}
}
no_server_crashed($node);
$proxy->stop;
done_testing();
