# A Kafka user who may see a topic and write to none, as where the right Write was forgotten: outbox.destination says what the broker says, of class
# config, and outbox.test_server() that the right is missing. With the right all events arrive, and test_server() has nothing to say.
# ring: long
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
my $kafka = Outbox::Kafka->start_secured(users => { outbox => 'pw' });
$kafka->create_topic('seen', 2);
$kafka->show('seen', 'outbox');
my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql(qq{CREATE SERVER r FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{sasl}', "security.protocol" 'sasl_plaintext', "sasl.mechanism" 'PLAIN');
	CREATE USER MAPPING FOR PUBLIC SERVER r OPTIONS ("sasl.username" 'outbox', "sasl.password" 'pw');
	SELECT outbox.create_route('r', server => 'r', topic => '{aggregate_type}')});

my $rights = q{SELECT ok, error_class, error_code, strpos(hint, '--operation Write') > 0 FROM outbox.test_server('r'%s, timeout => '20 s') WHERE "check" = 'rights'};
my $missing = 'f|config|CLUSTER_AUTHORIZATION_FAILED|t';
is(sql(sprintf $rights, q(, 'seen')), $missing, 'test_server() of the topic says that the right is missing');
is(sql(sprintf $rights, ''), $missing, 'and without a topic');
emit_counted($node, 'seen', ['a', 'b'], 1, 20);
ok(wait_for_value($node, q{SELECT state <> 'closed', error_class, error_code, error_message LIKE '%Cluster authorization failed%' FROM outbox.destination}, 't|config|CLUSTER_AUTHORIZATION_FAILED|t', 40),
	'outbox.destination says what the broker says');
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'no event is charged with it');
ok(wait_until(sub { slurp_file($node->logfile) =~ /WARNING:  outbox: destination "r" is in trouble: [^\n]*Cluster authorization failed.*HINT:  [^\n]*the rights that it has there/s }, 40), 'so does the log, with what to do');
unlike(slurp_file($node->logfile), qr/aborted again and again/, 'and nothing else');
$kafka->grant('seen', 'outbox');
ok(wait_until(sub { $kafka->count('seen') >= 40 }, 40), 'with the right all arrive');
is(sql(q{SELECT ok, detail FROM outbox.test_server('r', 'seen', timeout => '20 s') WHERE "check" = 'rights'}),
	't|the topic may be seen, and something may be written; whether this topic may is told with its first event', 'and test_server() has seen that something may be written');
no_server_crashed($node);
done_testing();
