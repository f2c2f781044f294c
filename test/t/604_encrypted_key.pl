# A private key that is encrypted: Redis' sink has no passphrase for it, and asks nobody for one. It is refused where it is
# written; in a file it is a trouble that says what to do.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
run_log([ qw(openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=redis.test), '-keyout', "$dir/plain.key", '-out', "$dir/redis.pem" ]) or die 'openssl';
run_log([ qw(openssl pkcs8 -topk8 -v2 aes256 -passout pass:abcd), '-in', "$dir/plain.key", '-out', "$dir/encrypted.key" ]) or die 'openssl';
run_log([ qw(openssl rsa -traditional -aes256 -passout pass:abcd), '-in', "$dir/plain.key", '-out', "$dir/traditional.key" ]) or die 'openssl';
my ($pem, $plain, $encrypted, $traditional) = map { slurp_file("$dir/$_") } qw(redis.pem plain.key encrypted.key traditional.key);
like($traditional, qr/Proc-Type: 4,ENCRYPTED/, 'of the old kind');

my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

sql("CREATE SERVER text FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1', tls 'true')");
foreach ([ 'PKCS #8', $encrypted ], [ 'the old kind', $traditional ])
{
	my ($kind, $key) = @$_;
	sql('DROP USER MAPPING IF EXISTS FOR PUBLIC SERVER text');
	my ($status, undef, $said) = $node->psql('postgres', "CREATE USER MAPPING FOR PUBLIC SERVER text OPTIONS (certificate_pem '$pem', key_pem '$key')");
	isnt($status, 0, "$kind: refused as text");
	like($said, qr/option "key_pem" is encrypted/, "$kind: why");
	like($said, qr/openssl pkey -in/, "$kind: what to do");
}
sql('DROP USER MAPPING IF EXISTS FOR PUBLIC SERVER text');
sql("CREATE USER MAPPING FOR PUBLIC SERVER text OPTIONS (certificate_pem '$pem', key_pem '$plain')");

foreach (qw(encrypted traditional))
{
	sql("CREATE SERVER $_ FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1', tls 'true', certificate_file '$dir/redis.pem', key_file '$dir/$_.key')");
	my $said = sql("SELECT error_class, error_code, detail, hint FROM outbox.test_server('$_', timeout => '20 s') WHERE NOT ok");
	like($said, qr/^config\|TLS\|.*"key_file" is encrypted/, "$_: test_server() says so");
	like($said, qr/openssl pkey -in/, "$_: and what to do");
}
sql(q{SELECT outbox.create_route('r', server => 'encrypted')});
sql(q{SELECT outbox.emit('order', 1, 'e', '{}')});
ok(wait_for_value($node, q{SELECT error_message LIKE '%"key_file" is encrypted%' FROM outbox.destination WHERE server = 'encrypted'}, 't'), 'the destination says so');

# Kafka's library has an option for the passphrase, and does not ask either.
sql(q{CREATE SERVER kafka FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '127.0.0.1:1', "security.protocol" 'ssl')});
sql(qq{CREATE USER MAPPING FOR PUBLIC SERVER kafka OPTIONS ("ssl.certificate.pem" '$pem', "ssl.key.pem" '$encrypted')});
like(sql(q{SELECT detail FROM outbox.test_server('kafka', timeout => '20 s') WHERE NOT ok}), qr/ssl\.key/, 'Kafka: test_server() says so');
my $log = slurp_file($node->logfile);
unlike($log, qr/pass phrase/i, 'nobody is asked for a passphrase');
done_testing();
