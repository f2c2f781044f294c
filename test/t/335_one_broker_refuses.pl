# One broker of two does not let the user in, as after a change of passwords that reached only the other. Topics that it leads
# wait, each by itself, and it is said why; those of the other broker flow, and the destination is never down. A topic of which it leads
# one partition of two is in trouble as long as that takes nothing, also when the events of that partition are parked.
use strict;
use warnings;

use File::Temp ();
use IO::Socket::INET;
use IPC::Run ();
use Outbox::Kafka;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();

my $root = File::Temp::tempdir('outbox-kafka.XXXXXX', TMPDIR => 1);
my $cluster = bless { root => $root, dir => $root, nodes => [] }, 'Outbox::Kafka';
END { my $status = $?; eval { $_->kill9 } foreach $cluster ? @{ $cluster->{nodes} } : (); $? = $status }
if ($ENV{OUTBOX_KAFKA_ADMIN}) { symlink $ENV{OUTBOX_KAFKA_ADMIN}, "$root/admin" or die $! }
else { system("\${CXX:-g++} -std=c++20 -O1 -o $root/admin $ENV{OUTBOX_TOP}/test/brokers/kafka_admin.cpp -lrdkafka") == 0 or die 'kafka_admin.cpp does not compile' }
my @taken = map { IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') // die $! } 1 .. 4;
my @ports = map { $_->sockport } @taken;
close $_ foreach @taken;
my $voters = join ',', map { "$_\@127.0.0.1:" . $ports[ 1 + $_ ] } 1 .. 2;
my @starting;
foreach my $id (1 .. 2)
{
	my $dir = "$root/$id";
	mkdir $dir or die $!;
	symlink "$root/admin", "$dir/admin" or die $!;
	push @{ $cluster->{nodes} }, bless { dir => $dir, bootstrap => '127.0.0.1:' . $ports[ $id - 1 ] }, 'Outbox::Kafka';
	my $users = Outbox::Kafka::jaas({ outbox => $id == 1 ? 'right' : 'other' });
	my $output = '';
	push @starting, { output => \$output, handle => IPC::Run::start(
		[ "$ENV{OUTBOX_TOP}/test/brokers/kafka.sh", 'start', $dir, $ports[ $id - 1 ], "node.id=$id", "controller.quorum.voters=$voters", 'heap=200m',
			'default.replication.factor=1', 'min.insync.replicas=1', 'listener=SASL:SASL_PLAINTEXT', 'listener.name.sasl.sasl.enabled.mechanisms=PLAIN',
			"listener.name.sasl.plain.sasl.jaas.config=$users" ], '<', \undef, '>&', \$output) };
}
$_->{handle}->finish or die "kafka.sh: ${ $_->{output} }" foreach @starting;
$cluster->{bootstrap} = join ',', map { $_->{bootstrap} } @{ $cluster->{nodes} };
# A topic of which each broker leads one partition, the first the one that lets the user in.
my $both;
foreach my $i (1 .. 20)
{
	$cluster->create_topic("b$i", 2);
	$both = "b$i" if $cluster->leader("b$i", 0) == $cluster->{nodes}[0] && $cluster->leader("b$i", 1) == $cluster->{nodes}[1];
	last if $both;
}
my (%topic, @refused);    # led by the one that lets the user in, and by the other
foreach my $i (1 .. 20)
{
	$cluster->create_topic("t$i", 1);
	if ($cluster->leader("t$i", 0) == $cluster->{nodes}[0]) { $topic{'lets in'} //= "t$i" }
	else { push @refused, "t$i" }
	last if %topic && @refused >= 2;
}

my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
chomp(my $addresses = Outbox::Kafka::slurp("$root/1/bootstrap.SASL"));
sql(qq{CREATE SERVER events FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$addresses', "security.protocol" 'sasl_plaintext', "sasl.mechanism" 'PLAIN');
	CREATE USER MAPPING FOR PUBLIC SERVER events OPTIONS ("sasl.username" 'outbox', "sasl.password" 'right');
	SELECT outbox.create_route('events', server => 'events', topic => '{aggregate_type}')});

my $begin = time;
my $looked = sql("SELECT \"check\", ok, error_class, detail FROM outbox.test_server('events', '$both', timeout => '60 s') WHERE NOT ok");
like($looked, qr/^topic\|f\|config\|the leader of partition 1, \S+, lets nobody in: .*authentication/i, 'the leader that refuses is found, whichever partition it leads');
cmp_ok(time - $begin, '<', 50, 'without waiting for the end of the time');
my $short;    # led by the one that lets the user in
foreach my $i (1 .. 20)
{
	$cluster->create_topic("short$i", 1, 'min.insync.replicas=2');
	$short = "short$i";
	last if $cluster->leader($short, 0) == $cluster->{nodes}[0];
}
my $few = '';    # a machine that is busy may not get the topic's settings in the two seconds that they have
wait_until(sub
{
	$few = sql(qq{SELECT ok, detail FROM outbox.test_server('events', '$short', timeout => '60 s') WHERE "check" = 'replicas'});
	return $few ne '';
}, 60);
is($few, qq{t|partition 0 of topic "$short" has 1 replica, and min.insync.replicas is 2}, 'so are too few replicas');

my $sent = 0;
sub arrives { my $id = sql("SELECT outbox.emit_text('$topic{'lets in'}', 'k', 'x', 'x')"); $sent++; return sql("SELECT outbox.wait_for('$id', '60s')") }
arrives();
# It is told without the 15 s after which a topic counts as stalled else. Another topic where the machine was too busy for that.
my ($said, $topic, $took) = ('');
foreach my $each (@refused)
{
	my $since = time;
	sql("SELECT outbox.emit_text('$each', 'k', 'x', 'x')");
	ok(wait_until(sub
	{
		arrives();
		$said = sql("SELECT error_message FROM outbox.lag WHERE side IS NOT NULL AND topic = '$each' AND error_code = 'BROKER_REFUSES'");
		return $said ne '';
	}, 120), 'the topic of the broker that refuses waits by itself');
	($topic, $took) = ($each, time - $since);
	last if $took < 12;
}
cmp_ok($took, '<', 12, 'which is told soon');
like($said, qr{^sasl_plaintext://\S+: .*authentication.*: so topic "$topic", .*takes nothing}i, 'and it is said what the broker says');
my $found = sql(qq{SELECT status, hint FROM outbox.doctor() WHERE "check" = 'topic' AND detail LIKE '%$topic%'});
like($found, qr/^problem\|.*credentials/, 'somebody has to act, and is told how');
unlike($found, qr/Create the topic|replicas/, 'not by what would not help');
is($cluster->count($topic{'lets in'}), $sent, 'the topic of the other broker has all events');
unlike(slurp_file($node->logfile), qr{destination "events" is}, 'the destination was never down');
is(sql(q{SELECT state FROM outbox.destination}), 'closed', 'nor is it');
# A topic of both brokers. Its first event, of k1, is for partition 1: where that is the dead one, the whole topic waits.
my $half;
foreach my $i (1 .. 20)
{
	$half = "half$i";
	$cluster->create_topic($half, 2);
	last if $cluster->leader($half, 1) == $cluster->{nodes}[0] && $cluster->leader($half, 0) == $cluster->{nodes}[1];
}
my $emit = qq{SELECT outbox.emit_text('$half', 'k' || i, 'x', 'x') FROM generate_series(1, 16) i};
sql($emit);
ok(wait_until(sub { slurp_file($node->logfile) =~ /WARNING:  outbox: topic "$half" of route "events" is in trouble/ }, 120), 'a topic of which a part takes nothing is in trouble');
ok(wait_until(sub
{
	sql($emit);
	return sql(qq{SELECT NOT EXISTS (SELECT FROM outbox.lag WHERE side IS NOT NULL AND topic = '$half')
		AND EXISTS (SELECT FROM outbox.lag WHERE side IS NULL AND error_code IN ('STALLED', 'BROKER_REFUSES') AND parked > 0)}) eq 't';
}, 180), 'its side lane comes back, and events of that part are parked');
foreach (1 .. 12)    # so long that an end would be told, which is after five seconds
{
	sleep 1;
	sql($emit);
}
my $log = slurp_file($node->logfile);
unlike($log, qr/topic "$half" of route "events" works again/, 'nobody says that it works');
unlike($log, qr/WARNING:  outbox: route "events" is in trouble/, 'nor that the route is in trouble');
cmp_ok($cluster->count($half), '>', 0, 'the other part has its events');

# The other one is away: it is found by the address that the cluster gives for it.
$cluster->{nodes}[1]->kill9;
$begin = time;
like(sql("SELECT detail FROM outbox.test_server('events', '$both', timeout => '60 s') WHERE NOT ok"),
	qr/^(?:the leader of partition 1, \S+, does not answer: .*|topic "$both" has a partition without a leader)$/, 'a leader that is away is found');
cmp_ok(time - $begin, '<', 50, 'soon, too');
no_server_crashed($node);
$node->stop;
done_testing();
