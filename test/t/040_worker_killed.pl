# Sink process killed, relay worker terminated, relay worker killed (the postmaster restarts everything): nothing is
# lost, first occurrences are in order, and what arrives twice is the same byte for byte.
# matrix: A1 A1s
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node(conf => "restart_after_crash = on\n");
my $redis = Outbox::Redis->start;
my $kafka = Outbox::Kafka::available() ? Outbox::Kafka->start : undef;
$kafka->create_topic('killed', 2) if $kafka;
Outbox::Ledger::install($node);
redis_route($node, $redis, 'redis', topic => q('killed'), lanes => 2);
kafka_route($node, $kafka, 'kafka', topic => q('killed'), lanes => 2) if $kafka;

sub load { return Outbox::Ledger::start_load($node, seconds => $_[0], clients => 2, rate => 20) }
sub arrived { return $redis->xlen('killed') }

# Waits for news in Redis, so that each blow falls on a worker that has something in its hands.
sub until_flowing
{
	my $before = arrived();
	for (1 .. 600) { return 1 if arrived() > $before + 100; sleep 0.05 }
	return 0;
}

my $load = load(300);
foreach my $round (1 .. 4)
{
	ok(until_flowing(), "events flow before sink process is killed, round $round");
	my @sinks;
	for (1 .. 200) { last if @sinks = sink_pids($node); sleep 0.05 } # the last blow's may be starting
	cmp_ok(scalar @sinks, '>', 0, 'there are sink processes');
	kill 'KILL', @sinks;
}
foreach my $round (1 .. 3)
{
	ok(until_flowing(), "events flow before relay workers are terminated, round $round");
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'outbox relay'");
}
ok(Outbox::Ledger::end_load($load), 'no session noticed that sinks and workers died');
no_server_crashed($node, 'a killed sink process or a terminated worker crashes nothing');

foreach my $round (1 .. 2)
{
	$load = load(30);
	ok(until_flowing(), "events flow before a relay worker is killed, round $round");
	my $crashes = crash_restarts($node);
	kill 'KILL', (relay_pids($node))[0];
	Outbox::Ledger::finish($load, may_fail => 1);
	ok(server_is_back($node, $crashes), 'the server is up again');
}
$load = load(2);
ok(Outbox::Ledger::finish($load), 'load after the crashes');
ok(wait_idle($node), 'everything was delivered');

my $entries = $redis->entries('killed');
Outbox::Ledger::check($node, 'Redis', [ map { $_->{payload} } @$entries ], duplicates => 1);
same_bytes('Redis', map { my %copy = %$_; delete $copy{_entry}; \%copy } @$entries);
SKIP:
{
	skip $ENV{OUTBOX_NO_KAFKA}, 3 unless $kafka;
	my $records = $kafka->records('killed');
	Outbox::Ledger::check($node, 'Kafka', [ map { $_->{payload} } @$records ], duplicates => 1);
	same_bytes('Kafka', map { { %{ $_->{headers} }, key => $_->{key}, payload => $_->{payload} } } @$records);
}
done_testing();

# Records with the same id must agree in every field.
sub same_bytes
{
	my ($what, @records) = @_;
	my (%seen, $repeats, $different);
	$repeats = $different = 0;
	foreach my $record (@records)
	{
		my $bytes = join "\0", map { "$_=$record->{$_}" } sort keys %$record;
		my $first = $seen{ $record->{id} } //= $bytes;
		$repeats++;
		$different++ if $first ne $bytes;
	}
	$repeats -= keys %seen;
	is($different, 0, "$what: $repeats repeats carry the same id and the same bytes");
	return;
}
