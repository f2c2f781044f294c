# What happens in a sink process stays there. It is killed, aborts, crashes, runs out of memory, is stopped and goes on, at
# random moments of a load: no session of the server notices, nothing is lost or out of order, and the lane is back within
# a second. It is what the kernel kills first where memory runs out. An event that kills it whenever it is sent becomes a
# dead letter, and everything else arrives.
# matrix: A1s A2p F2
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
$kafka->create_topic($_, 2) foreach $kafka ? qw(ledger poisoned) : ();
Outbox::Ledger::install($node);
my $types = q('{order}');
redis_route($node, $redis, 'redis', topic => q('ledger'), aggregate_types => $types);
kafka_route($node, $kafka, 'kafka', topic => q('ledger'), aggregate_types => $types) if $kafka;

sub sinks { for (1 .. 400) { my @sinks = sink_pids($node); return @sinks if @sinks == ($kafka ? 2 : 1); sleep 0.01 } return () }

my %arrived = (Redis => sub { $redis->xlen('ledger') });
$arrived{Kafka} = $kafka->follow('ledger') if $kafka;
my $load = Outbox::Ledger::start_load($node, seconds => 300, clients => 2, rate => 30);
# Until events have come to each destination that had not come before: the times at which they did. Nothing: one stands.
sub until_flowing
{
	my %before = map { $_ => $arrived{$_}->() } keys %arrived;
	my %at;
	for (1 .. 4000)
	{
		foreach my $to (grep { !$at{$_} } keys %arrived) { $at{$to} = time if $arrived{$to}->() > $before{$to} }
		return \%at if keys %at == keys %arrived;
		sleep 0.005;
	}
	return;
}
ok(until_flowing(), 'events flow');
foreach my $pid (sinks())
{
	chomp(my $score = slurp_file("/proc/$pid/oom_score_adj"));
	is($score, 1000, 'a sink process is what the kernel kills first');
	chomp(my $worst = slurp_file("/proc/$pid/oom_score"));
	my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	my @worse = grep { (slurp_file("/proc/$_/oom_score") =~ /(\d+)/)[0] >= $worst } $postmaster, relay_pids($node);
	is("@worse", '', "in the kernel's own reckoning, too: $worst");
}

# How long until Redis and Kafka get events again. The first death after a while costs no back-off.
sub pauses_of
{
	my ($blow) = @_;
	my @sinks = sinks();
	cmp_ok(scalar @sinks, '>', 0, 'there are sink processes') or return { map { $_ => 99 } keys %arrived };
	my $start = time;
	$blow->(@sinks);
	sleep 0.03; # what they had sent is seen by now
	my $at = until_flowing();
	return { map { $_ => $at ? $at->{$_} - $start : 99 } keys %arrived };
}
my %blows = (
	'killed' => sub { kill 'KILL', @_ },
	'aborted' => sub { kill 'ABRT', @_ },
	'crashed' => sub { kill 'SEGV', @_ },
	'out of memory' => sub { system('prlimit', '--pid', $_, '--as=1000000') foreach @_; return },
	'stopped for a moment' => sub { kill 'STOP', @_; sleep 0.3; kill 'CONT', @_ },
);
foreach my $how (sort keys %blows)
{
	my @pauses;
	foreach (1 .. 3)
	{
		push @pauses, pauses_of($blows{$how});
		sleep 1; # a process that dies young is started later; this is about one that dies now and then
		ok(until_flowing(), "$how: events flow again");
	}
	foreach my $to (sort keys %arrived)
	{
		my @took = sort { $a <=> $b } map { $_->{$to} } @pauses;
		cmp_ok($took[1], '<', 1 + 0.3, sprintf('%s: the lane to %s is back within a second (%.2f, %.2f and %.2f s)', $how, $to, @took));
	}
}
# At every named place in it, abort instead of SIGKILL (that is 090_fault_points.pl).
foreach my $point (grep { /^sink\./ && !/kafka/ } sort keys %{ Outbox::Faults::all_points() })
{
	Outbox::Faults::arm($point, 'abort 3');
	# All that there are: after an abort there may be a second one for what is tried again.
	kill 'KILL', sink_pids($node) if $point eq 'sink.start';
	for (1 .. 200) { kill 'KILL', sink_pids($node) if $point eq 'sink.start' && $_ % 20 == 0; last if Outbox::Faults::hits($point); sleep 0.05 }
	is(Outbox::Faults::hits($point), 1, "aborted at $point");
}
ok(Outbox::Ledger::end_load($load), 'no session noticed anything of all that');
ok(wait_idle($node, 60), 'everything is delivered');
Outbox::Ledger::check($node, 'Redis', $redis->column('ledger', 'payload'), duplicates => 1);
Outbox::Ledger::check($node, 'Kafka', $kafka->payloads('ledger'), duplicates => 1) if $kafka;
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'and none of it was blamed on an event');

# --- an event that kills it -------------------------------------------------------------------------------------------
my @routes = ('poisoned_redis', $kafka ? 'poisoned_kafka' : ());
foreach my $route (@routes)
{
	my $server = $route =~ s/poisoned_//r;
	$node->safe_psql('postgres', "SELECT outbox.create_route('$route', server => '$server', topic => 'poisoned', aggregate_types => '{poison}')");
}
Outbox::Faults::poison('OUTBOX-POISON', 'abort');
my $session = $node->safe_psql('postgres', q(SELECT pg_postmaster_start_time()));
$node->safe_psql('postgres', q(SELECT count(outbox.emit_text('poison', i % 20, 'x', CASE WHEN i = 137 THEN 'OUTBOX-POISON' ELSE i::text END))
	FROM generate_series(1, 400) i));
foreach my $route (@routes)
{
	ok(wait_for_value($node, "SELECT string_agg(error_code, ',') FROM outbox.dead_letter WHERE route = '$route'", 'SINK_DIED', 60),
		"$route: the event that kills the sink process is a dead letter") or diag($node->safe_psql('postgres', 'SELECT * FROM outbox.lag'));
}
ok(wait_idle($node, 60), 'everything else is delivered');
sub poisoned_check
{
	my ($what, @payloads) = @_;
	my (%seen, %last, $order);
	foreach my $payload (@payloads)
	{
		next if $seen{$payload}++;
		my $key = $payload % 20;
		$order++ if ($last{$key} // 0) > $payload;
		$last{$key} = $payload;
	}
	is(scalar(keys %seen), 399, "$what: the other 399 arrived");
	is($order // 0, 0, "$what: in order");
	return;
}
poisoned_check('Redis', @{ $redis->column('poisoned', 'payload') });
poisoned_check('Kafka', @{ $kafka->payloads('poisoned') }) if $kafka;
is($node->safe_psql('postgres', q(SELECT pg_postmaster_start_time())), $session, 'the server did not restart');
Outbox::Faults::disarm('poison');
$node->safe_psql('postgres', q(SELECT outbox.retry(id, route, 'harmless now') FROM outbox.dead_letter));
ok(wait_idle($node, 60), 'redriven when it does not kill the process any more');
is(scalar(grep { $_ eq 'OUTBOX-POISON' } @{ $redis->column('poisoned', 'payload') }), 1, 'it arrives')
  or diag($node->safe_psql('postgres', 'SELECT * FROM outbox_internal.parked; SELECT * FROM outbox_internal.outcome; SELECT * FROM outbox.audit; SELECT * FROM outbox.dead_letter'));
no_server_crashed($node, 'no process of the server crashed');
done_testing();
