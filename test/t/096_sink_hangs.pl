# A sink process that hangs and does not die (stopped, and not continued; in the middle of a batch, too) is killed after
# ten seconds without a word and replaced: the lanes are back by themselves, nothing is lost or out of order, no session
# and no other destination notices.
# matrix: A1h
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
my @routes = ('redis', 'more', $kafka ? 'kafka' : ());
foreach my $route (@routes)
{
	my %route = (topic => "'hung.$route'", aggregate_types => q('{order}'));
	$route eq 'kafka' ? kafka_route($node, $kafka, $route, %route) : redis_route($node, $redis, $route, %route);
}
my %arrived = map { my $stream = "hung.$_"; $_ => sub { $redis->xlen($stream) } } qw(redis more);
$arrived{kafka} = $kafka->follow('hung.kafka') if $kafka;
my $load = Outbox::Ledger::start_load($node, seconds => 300, clients => 2, rate => 30);
my $flows = sub { my %at = map { $_ => $arrived{$_}->() } @routes; return wait_until(sub { !grep { $arrived{$_}->() <= $at{$_} } @routes }, 30) };
ok($flows->(), 'events flow');
# (One more, that of parked events, comes and goes where the new topic was not known to every broker at once.)
ok(wait_until(sub { sink_pids($node) == @routes }), 'a sink process for each destination');

# One stops as it is given a batch, another by a signal, and neither is continued.
sub is_stopped { my ($pid) = @_; return slurp_file("/proc/$pid/stat") =~ /^\d+ \(.*\) T/ }
Outbox::Faults::arm('sink.submit.before', 'stop');
my @stopped;
ok(wait_until(sub { @stopped = grep { is_stopped($_) } sink_pids($node) }), 'one stops in the middle of a batch');
my $started = time;
my ($second, @others) = grep { $_ != $stopped[0] } sink_pids($node);
push @stopped, $second if @others;
kill 'STOP', $stopped[-1];
sleep 1; # in which what was in flight arrives; what comes after it is new
my %before = map { $_ => $arrived{$_}->() } @routes;
my $witness;
wait_until(sub { ($witness) = grep { $arrived{$_}->() > $before{$_} + 20 } @routes; $witness }, 6);
ok($witness, 'the others flow');
my %last = map { $_ => [ $arrived{$_}->(), time ] } @routes;
my %longest = map { $_ => 0 } @routes;
my $deadline = time + 90;
my %back;
my $tick = time;
while (time < $deadline && keys %back < @stopped)
{
	# In which the whole machine was paused.
	my $gap = time - $tick;
	$tick += $gap;
	if ($gap > 1) { $_->[1] += $gap foreach values %last }
	foreach my $route (@routes)
	{
		my $now = $arrived{$route}->();
		next if $now == $last{$route}[0];
		$longest{$route} = time - $last{$route}[1] if time - $last{$route}[1] > $longest{$route};
		$back{$route} //= time if $route ne $witness;
		$last{$route} = [ $now, time ];
	}
	sleep 0.02;
}
foreach my $route (grep { $_ ne $witness } @routes)
{
	ok($back{$route}, "$route: events flow again") or next;
	my $pause = $back{$route} - $started;
	cmp_ok($pause, '>', 7, sprintf('%s: no haste (%.1f s)', $route, $pause));
	cmp_ok($pause, '<', 60, "$route: but not for ever");
}
cmp_ok($longest{$witness}, '<', 5, sprintf('the longest that the other one waited is %.2f s', $longest{$witness}));
my @now = sink_pids($node);
is(scalar(grep { my $pid = $_; grep { $_ == $pid } @others } @now), scalar @others, 'its process was not replaced');
ok(!(grep { my $pid = $_; grep { $_ == $pid } @stopped } @now), 'the others were');
is($node->safe_psql('postgres', 'SELECT sum(deaths) FROM outbox.destination'), scalar @stopped, 'each has died once');

ok(Outbox::Ledger::end_load($load), 'no session noticed anything of all that');
ok(wait_idle($node, 60), 'everything is delivered');
Outbox::Ledger::check($node, 'Redis', $redis->column('hung.redis', 'payload'), duplicates => 1);
Outbox::Ledger::check($node, 'Redis, too', $redis->column('hung.more', 'payload'), duplicates => 1);
Outbox::Ledger::check($node, 'Kafka', $kafka->payloads('hung.kafka'), duplicates => 1) if $kafka;
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'and none of it was blamed on an event');
no_server_crashed($node, 'no process of the server crashed');
done_testing();
