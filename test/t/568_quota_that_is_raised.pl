# A quota of Kafka's that throttles is raised: the broker keeps the connection waiting for as long as it said before, so doctor() and the page
# advise to have a new one made, and with that all goes.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Kafka;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start;
$kafka->create_topic('t', 1);
my $jars = '';
IPC::Run::run([ "$ENV{OUTBOX_TOP}/test/brokers/kafka.sh", 'prepare' ], '<', \undef, '>', \$jars) or die 'kafka.sh prepare';
chomp $jars;
sub quota
{
	my ($rate) = @_;
	my $out = '';
	IPC::Run::run([ 'java', '-Xmx128m', '-cp', "$jars/*:$jars/lib/*", 'kafka.admin.ConfigCommand', '--bootstrap-server', $kafka->{bootstrap}, '--alter',
		'--add-config', "producer_byte_rate=$rate", '--entity-type', 'clients', '--entity-default' ], '<', \undef, '>&', \$out) or die "ConfigCommand: $out";
	return;
}
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

my ($advice) = slurp_file("$ENV{OUTBOX_TOP}/docs/when-things-go-wrong.md") =~ /producer_byte_rate=10000000\n```\n\n```sql\nALTER SERVER events ([^;]+);/;
ok($advice, 'the page says what to do once the quota is raised');
kafka_route($node, $kafka, 'kafka', topic => q('t'));
sql(q{SELECT outbox.emit_text('t', 'k', 'e', '0')});
ok(wait_idle($node), 'an event goes');
quota(1000);
# The quota reaches the broker's request handlers when it likes: large ones until it tells of them.
ok(wait_until(sub { sql(q{SELECT outbox.emit_text('t', 'k', 'e', repeat('x', 300000))}); return sql(q{SELECT error_code FROM outbox.destination}) eq 'THROTTLED' }, 60),
	'it is throttled');
is(sql(q{SELECT hint ~ 'Raise the quota in Kafka, then change an option of the server \(ALTER SERVER\)' FROM outbox.doctor() WHERE "check" = 'destination' AND detail ~ 'THROTTLED'}),
	't', 'doctor() says what to do');
quota(100000000);
sql('ALTER SERVER kafka ' . ($advice // q{OPTIONS (ADD "socket.keepalive.enable" 'true')}));
ok(wait_idle($node), 'all is delivered');
no_server_crashed($node);
$node->stop;
done_testing();
