# TLS to Redis from the confined program: test_server() and a route, with certificates as text, as files and of the system's authorities;
# a client's own certificate; and who is not to be trusted gets no event.
# matrix: D8
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

# A key and a certificate of its own signature, which postgres may read.
my $dir = PostgreSQL::Test::Utils::tempdir();
sub certificate
{
	my ($name) = @_;
	run_log([ qw(openssl req -x509 -newkey rsa:2048 -nodes -days 2), '-subj', "/CN=$name.test", '-addext', "subjectAltName=DNS:$name.test,IP:127.0.0.1",
			'-keyout', "$dir/$name.key", '-out', "$dir/$name.pem" ]) or die 'openssl';
	return map { slurp_file("$dir/$name.$_") } qw(pem key);
}
my ($pem, $key) = certificate('redis');
my ($other_pem) = certificate('other');

sub over_tls { my ($ask) = @_; return "tls-cert-file $dir/redis.pem", "tls-key-file $dir/redis.key", "tls-ca-cert-file $dir/redis.pem", "tls-auth-clients $ask" }
my ($redis, $asks) = map {
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $server = Outbox::Redis->start(conf => [ "tls-port $port", over_tls($_) ]);
	$server->{tls_port} = $port;
	$server
} qw(no yes);

my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

my $no_certificate = 'connection|f|config|TLS';
my $not_trusted = 'connection|f|config|TLS';
my @servers = (
	# name, Redis, options, what test_server() says, what that shows
	[ 'as_text', $redis, ", ca_pem '$pem'", 'server|t||', 'certificates as text' ],
	[ 'as_file', $redis, ", ca_file '$dir/redis.pem'", 'server|t||', 'as a file, which the confined program may read' ],
	[ 'named', $redis, ", ca_pem '$pem', tls_server_name 'redis.test'", 'server|t||', 'under another name than the host' ],
	[ 'misnamed', $redis, ", ca_pem '$pem', tls_server_name 'other.test'", $not_trusted, 'not under one that the certificate does not have' ],
	[ 'of_another', $redis, ", ca_pem '$other_pem'", $not_trusted, 'not with another authority' ],
	[ 'of_the_system', $redis, '', $not_trusted, "nor with the system's" ],
	[ 'unasked', $redis, ", tls_verify 'false'", 'server|t||', 'unless nobody looks' ],
	[ 'without', $asks, ", ca_pem '$pem'", $no_certificate, 'a server that asks for a certificate' ],
	[ 'with_one', $asks, ", ca_pem '$pem'", 'server|t||', 'and gets one' ]);
foreach (@servers)
{
	my ($name, $to, $options, $said, $shows) = @$_;
	sql("CREATE SERVER $name FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$to->{tls_port}', tls 'true'$options)");
	sql("CREATE USER MAPPING FOR PUBLIC SERVER with_one OPTIONS (certificate_pem '$pem', key_pem '$key')") if $name eq 'with_one';
	my @checks = split /\n/, sql(qq{SELECT "check", ok, error_class, error_code FROM outbox.test_server('$name', timeout => '20 s')});
	is($checks[-1], $said, $shows);
}

sql("SELECT outbox.create_route('$_->[0]', server => '$_->[0]', aggregate_types => '{$_->[1]}')") foreach [ 'as_text', 'order' ], [ 'with_one', 'job' ], [ 'of_another', 'secret' ];
sql(q{BEGIN; SELECT outbox.emit('order', i, 'order.created', jsonb_build_object('is', repeat('x', 9000))) FROM generate_series(1, 1000) i;
	SELECT outbox.emit('job', 1, 'job.done', '{}'), outbox.emit('secret', 1, 'secret.told', '{}'); COMMIT});
ok(wait_until(sub { $redis->xlen('outbox.event.order') == 1000 && $asks->xlen('outbox.event.job') == 1 }, 60), 'events arrive');

ok(wait_until(sub { sql(q{SELECT error_code FROM outbox.destination WHERE server = 'of_another'}) eq 'TLS' }, 60), 'who is not trusted is trouble');
$redis->kill9;
sql(q{SELECT outbox.emit('order', 1, 'order.changed', '{}')});
$redis->restart;
ok(wait_until(sub { $redis->xlen('outbox.event.order') == 1001 }, 60), 'and after the server was killed');
is($redis->command('EXISTS', 'outbox.event.secret') + sql(q{SELECT count(*) FROM outbox.dead_letter}), 0, 'nothing was told to it, and nothing charged');
done_testing();
