# No descriptor or thread is to be had. In a sink process that has lost its connection, in a relay worker that has lost its
# sink process, in a Kafka sink process that starts or has lost its connection: each says so, waits, and goes on by itself when
# there are some again. No other process is affected, no server process ends.
# matrix: F3
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Proxy;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node(conf => "restart_after_crash = off\noutbox.workers = 1\n");
my $redis = Outbox::Redis->start;
my $proxy = Outbox::Proxy->new;
my $kafka = Outbox::Kafka::available() ? $proxy->kafka : undef;
$kafka->create_topic('scarce', 1) if $kafka;
redis_route($node, $redis, 'redis', topic => q('scarce'));
kafka_route($node, $kafka->{proxied}, 'kafka', topic => q('scarce')) if $kafka;

sub sql { return $node->safe_psql('postgres', $_[0]) }
my $done = 0;
sub more { my ($count) = @_; emit_counted($node, 'order', [ 'k' ], $done + 1, $done + $count); $done += $count; return }
sub trouble_is
{
	my ($server, $code, $text, $what) = @_;
	return ok(wait_for_value($node, "SELECT count(*) FROM outbox.destination WHERE server = '$server' AND error_class = 'destination'
		AND error_code ~ '^($code)\$' AND error_message ~ '$text'", 1, 20), $what)
	  || diag(sql('SELECT server, state, error_class, error_code, error_message FROM outbox.destination'));
}
sub limit
{
	my ($pid, $resource, $soft) = @_;
	if (!defined $soft)
	{
		my ($name) = $resource eq 'nproc' ? 'Max processes' : 'Max open files';
		open my $file, '<', "/proc/$pid/limits" or die "limits of $pid: $!";
		while (<$file>) { $soft = $1 if /^$name +\S+ +(\S+)/ }
	}
	return system('prlimit', '--pid', $pid, "--$resource=$soft:") == 0;
}
sub sink_of
{
	my ($kind) = @_;
	for (1 .. 400)
	{
		my ($pid) = grep { comm($_) eq substr "outbox-sink-$kind", 0, 15 } sink_pids($node);
		return $pid if $pid;
		sleep 0.05;
	}
	die "there is no $kind sink process";
}
# The name of a process, of which the kernel keeps 15 characters.
sub comm { my ($pid) = @_; open my $file, '<', "/proc/$pid/comm" or return ''; chomp(my $name = <$file> // ''); return $name }
sub complete
{
	my ($what) = @_;
	ok(wait_idle($node, 30), "$what: all is delivered");
	my %seen;
	is(join(' ', grep { !$seen{$_}++ } split ' ', by_key($redis->column('scarce', 'payload'))->{k}), join(' ', 1 .. $done), "$what: in order, from Redis");
	return if !$kafka;
	%seen = ();
	is(join(' ', grep { !$seen{$_}++ } split ' ', by_key($kafka->payloads('scarce'))->{k}), join(' ', 1 .. $done), "$what: in order, from Kafka");
	return;
}
more(10);
complete('before');
my ($relay) = relay_pids($node);

# --- a sink process without descriptors -------------------------------------------------------------------------------
# It has 0 to 2, its socket and its connection; that one has to be made again.
my $sink = sink_of('redis');
ok(limit($sink, 'nofile', 4), 'the Redis sink process may not open a fifth descriptor');
$redis->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
trouble_is('redis', 'CONNECT|RESOLVE', 'Too many open files|descriptors', 'a sink process without descriptors says so');
more(10);
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'no event is charged');
if ($kafka) { ok(wait_until(sub { @{ $kafka->payloads('scarce') } == $done }, 20), 'the other destination goes on') }
ok(limit($sink, 'nofile'), 'it may again');
complete('descriptors given back');
is(sink_of('redis'), $sink, 'by the same process');

# --- a relay worker without descriptors -------------------------------------------------------------------------------
# As many as it has now, but for data files, which it can close; its sink process is killed, and a new one needs a pair of sockets.
sub open_files { my ($pid) = @_; return map { m{(\d+)$} } grep { (readlink $_ // '') !~ m{/(base|global)/} } glob "/proc/$pid/fd/*" }
my %open = map { $_ => 1 } open_files($relay);
my $lowest = 0;
$lowest++ while $open{$lowest};
ok(limit($relay, 'nofile', $lowest), "the relay worker, which has " . keys(%open) . " descriptors, may open no more");
kill 'KILL', $sink;
trouble_is('redis', 'SINK_START', 'Too many open files: .*ulimit -n', 'a worker that cannot start a sink process says so');
more(10);
ok(limit($relay, 'nofile'), 'it may again');
complete('sockets given back');
is(join(' ', relay_pids($node)), $relay, 'by the same worker');

# --- a worker that cannot start a process -----------------------------------------------------------------------------
ok(limit($relay, 'nproc', 1), 'the relay worker may start no process');
kill 'KILL', sink_of('redis');
trouble_is('redis', 'SINK_START', 'Resource temporarily unavailable', 'a worker that cannot start a process says so');
more(10);
ok(limit($relay, 'nproc'), 'it may again');
complete('processes given back');

# --- a Kafka sink process that can start no thread --------------------------------------------------------------------
SKIP:
{
	skip $ENV{OUTBOX_NO_KAFKA}, 1 unless $kafka;
	Outbox::Faults::arm('sink.start', 'wait');
	kill 'KILL', sink_of('kafka');
	ok(Outbox::Faults::await_waiting('sink.start', 20), 'a new Kafka sink process has not begun yet');
	$sink = sink_of('kafka');
	ok(limit($sink, 'nproc', 1), 'it may start no thread');
	Outbox::Faults::release('sink.start');
	trouble_is('kafka', 'CLIENT', 'thread', 'a client library without threads is trouble that passes');
	more(10);
	ok(limit($sink, 'nproc'), 'it may again');
	complete('threads given back');
	is(sink_of('kafka'), $sink, 'by the same process');

	# --- a Kafka sink process without descriptors ---------------------------------------------------------------------
	# It has 0 to 2, its socket, what its client library needs for itself, and no connection any more.
	ok(limit($sink, 'nofile', 5), 'it may open no descriptor');
	$proxy->tell('kafka', 'refuse');
	$proxy->tell('kafka', 'pass');
	more(10);
	trouble_is('kafka', '_ALL_BROKERS_DOWN|_TRANSPORT', 'Too many open files', 'a Kafka sink process that can make no connection says so');
	ok(wait_until(sub { $redis->xlen('scarce') >= $done }, 20), 'the other destination goes on');
	is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'no event is charged');
	ok(limit($sink, 'nofile'), 'it may again');
	complete('descriptors given back to it');
	is(sink_of('kafka'), $sink, 'by the same process');
	# One that starts without.
	Outbox::Faults::arm('sink.start', 'wait');
	kill 'KILL', $sink;
	ok(Outbox::Faults::await_waiting('sink.start', 20), 'another has not begun yet');
	$sink = sink_of('kafka');
	ok(limit($sink, 'nofile', 4), 'it may open no descriptor but those that it has');
	Outbox::Faults::release('sink.start');
	trouble_is('kafka', 'CLIENT', 'Too many open files', 'it says so');
	more(10);
	ok(limit($sink, 'nofile'), 'it may again');
	complete('descriptors given to a new one');
	is(sink_of('kafka'), $sink, 'by the same process');
}
is(join(' ', relay_pids($node)), $relay, 'the worker was the same all the time');
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'no event was charged');
$proxy->stop;
no_server_crashed($node);
done_testing();
