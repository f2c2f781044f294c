# A broker that can be reached, and says that it is found under a name that nobody knows, or at an address where nothing
# listens: outbox.test_server() says what the library said of that address, by the code that a worker shows.
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
my $kafka = Outbox::Kafka->start('listener=NAME:PLAINTEXT:no-such-host.invalid', 'listener=AWAY:PLAINTEXT:127.0.0.2');
$kafka->create_topic('orders', 2);
my $node = new_node();

sub look
{
	my ($listener) = @_;
	my ($port) = Outbox::Kafka::slurp("$kafka->{dir}/bootstrap.$listener") =~ /:(\d+)/;
	$node->safe_psql('postgres', qq{CREATE SERVER \L$listener\E FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '127.0.0.1:$port')});
	return ($port, $node->safe_psql('postgres',
		qq{SELECT "check", error_class, error_code, detail, hint FROM outbox.test_server('\L$listener\E', 'orders', timeout => '60 s') WHERE NOT ok}));
}

my ($port, $row) = look('NAME');
like($row, qr/^topic\|destination\|_RESOLVE\|the leader of partition \d, no-such-host\.invalid:$port, does not answer: .*resolve.*\|.*advertised\.listeners/i,
	'an advertised name that is none');
($port, $row) = look('AWAY');
like($row, qr/^topic\|destination\|_TRANSPORT\|the leader of partition \d, 127\.0\.0\.2:$port, does not answer: .*refused.*\|.*advertised\.listeners/i,
	'an advertised address where nothing listens');
no_server_crashed($node);
done_testing();
