# Tokens that the client makes itself (enable.sasl.oauthbearer.unsecure.jwt): librdkafka 1.9 to 2.1 crashes when it renews one. With such a
# library the option is refused, in words; with a newer one the sink lives on.
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
my $kafka = Outbox::Kafka->start('heap=256m', 'authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer', 'super.users=User:ANONYMOUS;User:outbox',
	'listener=SASL:SASL_PLAINTEXT', 'listener.name.sasl.sasl.enabled.mechanisms=OAUTHBEARER',
	'listener.name.sasl.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";');
chomp(my $address = slurp_file("$kafka->{dir}/bootstrap.SASL"));
$kafka->create_topic('t', 1);
my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql(qq{CREATE SERVER events FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$address', "security.protocol" 'sasl_plaintext', "sasl.mechanism" 'OAUTHBEARER',
	"enable.sasl.oauthbearer.unsecure.jwt" 'true', "sasl.oauthbearer.config" 'principal=outbox lifeSeconds=10')});
my ($version) = `pkg-config --modversion rdkafka` =~ /^(\d+\.\d+)/;
my $tells = q{SELECT error_code || ': ' || detail FROM outbox.test_server('events', timeout => '20 s') WHERE NOT ok};
sql(q{SET client_min_messages = error; SELECT outbox.create_route('r', server => 'events', topic => 't'); SELECT outbox.emit('a', 'k', 'e', '{}')});
if ($version < 2.2)
{
	like(sql($tells), qr/^OLD_LIBRARY: librdkafka \S+ crashes when it renews a token of "enable\.sasl\.oauthbearer\.unsecure\.jwt": that takes librdkafka 2\.2\.0/,
		'outbox.test_server() says what it is');
	ok(wait_for_value($node, q{SELECT error_class, error_code FROM outbox.lag}, 'config|OLD_LIBRARY', 30), 'and outbox.lag');
	is($kafka->count('t'), 0, 'the event waits');
}
else
{
	is(sql($tells), '', 'nothing is wrong');
	ok(wait_idle($node), 'an event is delivered');
	my @sinks = sink_pids($node);
	sleep 12;    # past a renewal, at four fifths of the token's life
	sql(q{SELECT outbox.emit('a', 'k', 'e', '{}')});
	ok(wait_idle($node), 'another, with the next token');
	is_deeply([ sink_pids($node) ], \@sinks, 'by the same process');
}
unlike(slurp_file($node->logfile), qr/SINK_DIED|by signal 11/, 'no sink has crashed');
no_server_crashed($node);
$node->stop;
done_testing();
