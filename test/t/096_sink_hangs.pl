# A sink process that hangs and does not die (stopped, and nobody lets it go on; in the middle of a batch, too) is killed
# after ten seconds without a word and replaced: the lanes are back by themselves, nothing is lost or out of order, no
# session and no other destination notices. A worker that was itself stopped for longer than that kills nobody.
# matrix: A1h F5
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Ledger;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node(conf => "restart_after_crash = off\n");
my $redis = Outbox::Redis->start;
my $kafka = Outbox::Kafka::available() ? Outbox::Kafka->start : undef;
$kafka->create_topic('hung.kafka', 2) if $kafka;
Outbox::Ledger::install($node);
my @routes = ('redis', 'witness', $kafka ? 'kafka' : ());
foreach my $route (@routes)
{
	my %route = (topic => "'hung.$route'", aggregate_types => q('{order}'));
	$route eq 'kafka' ? kafka_route($node, $kafka, $route, %route) : redis_route($node, $redis, $route, %route);
}
my %arrived = map { my $stream = "hung.$_"; $_ => sub { $redis->xlen($stream) } } qw(redis witness);
$arrived{kafka} = $kafka->follow('hung.kafka') if $kafka;
my $load = Outbox::Ledger::start_load($node, seconds => 300, clients => 2, rate => 30);
my $flows = sub { my %at = map { $_ => $arrived{$_}->() } @routes; return wait_until(sub { !grep { $arrived{$_}->() <= $at{$_} } @routes }, 30) };
ok($flows->(), 'events flow');
is(scalar(sink_pids($node)), scalar @routes, 'a sink process for each destination');

# Stops those that the next events find, but the witness': it is stopped for a moment and goes on.
my (@stopped, $witness);
my $started = time;
foreach my $pid (sink_pids($node))
{
	# The witness is the Redis sink that still delivers to its stream while stopping the other stops the other's.
	kill 'STOP', $pid;
	sleep 0.2;
	my ($before, $name) = ($arrived{witness}->());
	my $goes_on = wait_until(sub { $arrived{witness}->() > $before }, 1);
	if ($goes_on) { push @stopped, $pid }
	else { $witness = $pid; kill 'CONT', $pid }
}
ok($witness, 'one of them serves the witness');
is(scalar @stopped, @routes - 1, 'all others are stopped');
my %last = map { $_ => [ $arrived{$_}->(), time ] } @routes;
my %longest = map { $_ => 0 } @routes;
my $deadline = time + 40;
my $reason = '';
my %back;
while (time < $deadline && keys %back < @routes - 1)
{
	foreach my $route (@routes)
	{
		my $now = $arrived{$route}->();
		next if $now == $last{$route}[0];
		$longest{$route} = time - $last{$route}[1] if time - $last{$route}[1] > $longest{$route};
		$back{$route} //= time if $route ne 'witness';
		$last{$route} = [ $now, time ];
	}
	sleep 0.02;
}
foreach my $route (grep { $_ ne 'witness' } @routes)
{
	ok($back{$route}, "$route: events flow again") or next;
	my $pause = $back{$route} - $started;
	cmp_ok($pause, '>', 7, sprintf('%s: no haste (%.1f s)', $route, $pause));
	cmp_ok($pause, '<', 16, "$route: but not for ever");
}
cmp_ok($longest{witness}, '<', 2, sprintf('the longest that the witness waited is %.2f s', $longest{witness}));
my @now = sink_pids($node);
ok((grep { $_ == $witness } @now), "the witness' process was not replaced");
ok(!(grep { my $pid = $_; grep { $_ == $pid } @stopped } @now), 'the others were');
is($node->safe_psql('postgres', 'SELECT sum(deaths) FROM outbox.destination'), scalar @stopped, 'each has died once');

# In the middle of a batch, and a worker that was away for longer than anybody may be silent.
Outbox::Faults::arm('sink.submit.before', 'stop');
ok(wait_until(sub { Outbox::Faults::hits('sink.submit.before') }), 'one stops as it gets a batch');
my @relays = relay_pids($node);
my @sinks = sink_pids($node);
sleep 0.5;
kill 'STOP', @relays;
sleep 11;
kill 'CONT', @relays;
sleep 0.5;
is(join(' ', sort { $a <=> $b } sink_pids($node)), join(' ', sort { $a <=> $b } @sinks), 'nobody is killed for the time that the worker was stopped');
ok($flows->(), 'afterwards that one is replaced, and events flow');
ok(Outbox::Ledger::end_load($load), 'no session noticed anything of all that');
ok(wait_idle($node, 60), 'everything is delivered');
Outbox::Ledger::check($node, 'Redis', $redis->column('hung.redis', 'payload'), duplicates => 1);
Outbox::Ledger::check($node, 'the witness', $redis->column('hung.witness', 'payload'), duplicates => 1);
Outbox::Ledger::check($node, 'Kafka', $kafka->payloads('hung.kafka'), duplicates => 1) if $kafka;
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox.parked'), '0', 'and none of it was blamed on an event');
no_server_crashed($node, 'no process of the server crashed');
done_testing();
