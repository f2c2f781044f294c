# Certificates that are renewed under their names: the running sinks take them, whether it was the client's certificate that was refused or the
# authority that did not know the server's. A certificate that the other side refuses is said to be that, and what to do: it will not
# pass by itself.
# matrix: D8
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();

# Two keys with certificates of their own signature: the servers have the first, and trust it.
my $dir = PostgreSQL::Test::Utils::tempdir();
foreach my $name (qw(known stranger))
{
	my ($key, $certificate) = Outbox::Kafka::key_and_certificate();
	append_to_file("$dir/$name.key", $key);
	append_to_file("$dir/$name.pem", $certificate);
	append_to_file("$dir/$name.both", $key . $certificate);
}
sub renew
{
	my ($from, $to) = @_;
	append_to_file("$dir/$to.new", slurp_file("$dir/$from"));
	rename("$dir/$to.new", "$dir/$to") or die $!;
}
foreach my $kind (qw(kafka redis))
{
	renew('stranger.pem', "$kind.pem");
	renew('stranger.key', "$kind.key");
	renew('stranger.pem', "$kind.ca");
}

my $kafka = Outbox::Kafka->start('heap=256m', 'listener=MTLS:SSL:localhost', map { "listener.name.mtls.$_" } 'ssl.client.auth=required',
	'ssl.keystore.type=PEM', "ssl.keystore.location=$dir/known.both", 'ssl.truststore.type=PEM', "ssl.truststore.location=$dir/known.pem");
$kafka->create_topic('t', 1);
chomp(my $address = slurp_file("$kafka->{dir}/bootstrap.MTLS"));
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $redis = Outbox::Redis->start(conf => [ "tls-port $port", "tls-cert-file $dir/known.pem", "tls-key-file $dir/known.key", "tls-ca-cert-file $dir/known.pem", 'tls-auth-clients yes' ]);

my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql(qq{CREATE SERVER kafka FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$address', "security.protocol" 'ssl', "ssl.ca.location" '$dir/kafka.ca',
		"ssl.certificate.location" '$dir/kafka.pem', "ssl.key.location" '$dir/kafka.key');
	CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host 'localhost', port '$port', tls 'true', ca_file '$dir/redis.ca',
		certificate_file '$dir/redis.pem', key_file '$dir/redis.key');
	SET outbox.test_new_routes = off;
	SELECT outbox.create_route(s, server => s::name, topic => 't') FROM unnest('{kafka, redis}'::text[]) s;});
sql(q{SELECT outbox.emit('order', i, 'order.created', '{}') FROM generate_series(1, 20) i});

my %code = (kafka => '_SSL', redis => 'TLS');
sub says
{
	my ($what, $pattern) = @_;
	foreach my $server (qw(kafka redis))
	{
		my $said = '';
		ok(wait_until(sub
		{
			$said = sql("SELECT error_class, error_code, error_message FROM outbox.destination WHERE server = '$server'");
			return $said =~ /^config\|$code{$server}\|.*$pattern/i && sql("SELECT error_class, error_code, error_message FROM outbox.lag WHERE route = '$server'") =~ /^config\|$code{$server}\|.*$pattern/i;
		}, 120), "$server: $what") or diag($said);
	}
	return;
}
sub hint { my ($server) = @_; return sql("SELECT error_class, hint FROM outbox.test_server('$server', timeout => '30 s') WHERE NOT ok") }

says('an authority that does not know the server', 'certificate');
like(hint('kafka'), qr/^config\|.*ssl\.ca\.pem/, 'kafka: the hint names the authority');
like(hint('redis'), qr/^config\|.*ca_pem/, 'redis: the hint names the authority');

renew('known.pem', "$_.ca") foreach qw(kafka redis);
says('the new authority is used, and our own certificate is refused', '(?:alert|refuses the certificate)');
like(hint('kafka'), qr/^config\|.*ssl\.certificate\.pem.*ssl\.certificate\.location/, 'kafka: the hint names our certificate');
like(hint('redis'), qr/^config\|.*certificate_pem.*certificate_file/, 'redis: the hint names our certificate');
is($kafka->count('t') + $redis->xlen('t'), 0, 'nothing has arrived');

foreach my $kind (qw(kafka redis))
{
	renew('known.pem', "$kind.pem");
	renew('known.key', "$kind.key");
}
ok(wait_until(sub { $kafka->count('t') == 20 && $redis->xlen('t') == 20 }, 120), 'with the new certificate all events arrive');
ok(wait_until(sub { sql(q{SELECT count(*) FROM outbox.lag WHERE error_class IS NOT NULL}) == 0 }, 60), 'and the trouble is over');

# The same for sinks that were well: the next connection, or trouble with one, has them look.
renew('stranger.pem', "$_.ca") foreach qw(kafka redis);
$_->restart foreach $kafka, $redis;
sql(q{SELECT outbox.emit('order', 21, 'order.created', '{}')});
ok(wait_until(sub { sql(q{SELECT count(*) FROM outbox.lag WHERE error_class = 'config'}) == 2 }, 120), 'the files that are there when connections are made count');
renew('known.pem', "$_.ca") foreach qw(kafka redis);
ok(wait_until(sub { $kafka->count('t') == 21 && $redis->xlen('t') == 21 }, 120), 'those of later too');
no_server_crashed($node);
$node->stop;
done_testing();
