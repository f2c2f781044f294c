# A quota of Kafka's throttles what goes by the sink of its own that retries and replays have: that is told like any other throttling, though the
# lanes have nothing to send.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Kafka;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
my $kafka = Outbox::Kafka->start;
$kafka->create_topic('t', 1);
my $node = new_node();
kafka_route($node, $kafka, 'kafka', topic => "'t'");
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql(q(SELECT count(outbox.emit_text('a', (n % 50)::text, 'e', n || repeat(md5(n::text), 14))) FROM generate_series(1, 1000) n));
ok(wait_idle($node, 60), 'delivered without a quota');

my ($jars, $out) = ('', '');
IPC::Run::run([ "$ENV{OUTBOX_TOP}/test/brokers/kafka.sh", 'prepare' ], '<', \undef, '>', \$jars) or die 'kafka.sh prepare';
chomp $jars;
IPC::Run::run([ 'java', '-Xmx128m', '-cp', "$jars/*:$jars/lib/*", 'kafka.admin.ConfigCommand', '--bootstrap-server', $kafka->{bootstrap}, '--alter',
	'--add-config', 'producer_byte_rate=20000', '--entity-type', 'clients', '--entity-default' ], '<', \undef, '>&', \$out) or die "ConfigCommand: $out";
sql(q(CALL outbox.replay(since => '-infinity', route => 'kafka', dry_run => false)));
ok(wait_for_value($node, 'SELECT state, error_code FROM outbox.destination', 'closed|THROTTLED', 60), 'outbox.destination has it');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'destination' AND status = 'warning' AND detail ~ 'THROTTLED'), '1', 30), 'doctor() too');
ok(wait_until(sub { slurp_file($node->logfile) =~ /WARNING: .*destination "kafka" is used, but its brokers throttle it/ }, 30), 'and the log');
no_server_crashed($node);
done_testing();
