# A Kafka broker lets less through than comes (producer_byte_rate). It answers at once, and then reads nothing from that
# connection for as long as it throttles: what was sent behind it waits. That is told as what it is; the broker is not
# taken for dead, no topic for stalled, and nothing is sent twice for it.
# matrix: D15
# ring: long
use strict;
use warnings;

use IPC::Run ();
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start;
$kafka->create_topic('t', 3);
my ($jars, $out) = ('', '');
IPC::Run::run([ "$ENV{OUTBOX_TOP}/test/brokers/kafka.sh", 'prepare' ], '<', \undef, '>', \$jars) or die 'kafka.sh prepare';
chomp $jars;
IPC::Run::run([ 'java', '-Xmx128m', '-cp', "$jars/*:$jars/lib/*", 'kafka.admin.ConfigCommand', '--bootstrap-server', $kafka->{bootstrap}, '--alter',
	'--add-config', 'producer_byte_rate=20000', '--entity-type', 'clients', '--entity-default' ], '<', \undef, '>&', \$out) or die "ConfigCommand: $out";
kafka_route($node, $kafka, 'kafka', topic => q('t'));
my $count = 0;
# 60 kB a second, for 20 s: a minute of what the quota lets through.
foreach (1 .. 40)
{
	my $from = $count + 1;
	$count += 60;
	$node->safe_psql('postgres', "SELECT outbox.emit_text('a', n % 50, 'e', n || ' ' || repeat(md5(n::text), 14)) FROM generate_series($from, $count) n");
	select undef, undef, undef, 0.5;    # a load, not a wait
}
ok(wait_for_value($node, q{SELECT error_code FROM outbox.destination WHERE server = 'kafka'}, 'THROTTLED', 60), 'it is told that the broker throttles');
ok(wait_idle($node, 180), 'all is delivered');
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
like($log, qr/WARNING:  outbox: destination "kafka" is used, but its brokers throttle it/, 'also in the log');
unlike($log, qr/ALL_BROKERS_DOWN|STALLED|NO_OUTCOME/, 'and nothing is taken for dead');
my (%seen, $again);
foreach my $payload (@{ $kafka->payloads('t') })
{
	$again += $seen{$payload}++ ? 1 : 0;
}
is(scalar keys %seen, $count, 'each event is there');
is($again // 0, 0, 'and none twice');
no_server_crashed($node);
done_testing();
