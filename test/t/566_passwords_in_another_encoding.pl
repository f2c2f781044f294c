# A database that is not in UTF-8: passwords, names of users and other texts of a server and its user mapping reach the broker in UTF-8, as
# in any other database; names of files stay the bytes that they have on the disk. In SQL_ASCII all is as it was written.
use strict;
use warnings;

use File::Temp ();
use Outbox::Kafka;
use Outbox::Redis;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
$ENV{PGCLIENTENCODING} = 'UTF8';
my $password = "p\xc3\xa4ss";
my $kafka = Outbox::Kafka->start_secured(users => { outbox => 'p\u00e4ss' });
my $redis = Outbox::Redis->start(password => $password, conf => [ "requirepass $password", "user j\xc3\xbcrgen on >$password ~* &* +\@all" ]);
my $files = File::Temp->newdir('outbox-files.XXXXXX', TMPDIR => 1);
chmod 0755, $files;
my $node = new_node(init => [ '--encoding=UTF8', '--locale=C' ], conf => "max_worker_processes = 32\n");
my %encodings = (lat => 'LATIN1', raw => 'SQL_ASCII', uni => 'UTF8');

foreach my $db (sort keys %encodings)
{
	# The authorities to trust in a file whose name has an umlaut: bytes, as the database has them.
	my $file = $db eq 'lat' ? "$files/k\xe4se.pem" : "$files/k\xc3\xa4se.pem";
	append_to_file($file, $kafka->{certificate}) if !-e $file;
	chmod 0644, $file;
	$kafka->create_topic($db, 1);
	$kafka->grant($db, 'outbox');
	$node->safe_psql('postgres', "CREATE DATABASE $db ENCODING '$encodings{$db}' LOCALE 'C' TEMPLATE template0");
	$node->safe_psql($db, qq{
		CREATE EXTENSION outbox;
		CREATE SERVER k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{sasl}', "security.protocol" 'sasl_plaintext', "sasl.mechanism" 'PLAIN');
		CREATE SERVER t FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{tls}', "security.protocol" 'sasl_ssl', "sasl.mechanism" 'PLAIN',
			"ssl.ca.location" '$files/k\xc3\xa4se.pem');
		CREATE USER MAPPING FOR PUBLIC SERVER k OPTIONS ("sasl.username" 'outbox', "sasl.password" '$password');
		CREATE USER MAPPING FOR PUBLIC SERVER t OPTIONS ("sasl.username" 'outbox', "sasl.password" '$password');
		CREATE SERVER r FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
		CREATE SERVER u FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
		CREATE USER MAPPING FOR PUBLIC SERVER r OPTIONS (password '$password');
		CREATE USER MAPPING FOR PUBLIC SERVER u OPTIONS (username 'j\xc3\xbcrgen', password '$password');
		SELECT outbox.create_route(s, server => s::name, topic => CASE WHEN s IN ('k', 't') THEN '$db' ELSE '$db.gr\xc3\xb6sse' END) FROM unnest('{k,t,r,u}'::text[]) s});
	is($node->safe_psql($db, q{SELECT string_agg(s || ':' || "check" || ' ' || detail, '; ') FROM unnest('{k,t,r,u}'::text[]) s, outbox.test_server(s::name, timeout => '20 s') WHERE NOT ok}),
		'', "$encodings{$db}: outbox.test_server() is let in everywhere");
	$node->safe_psql($db, q{SELECT outbox.emit('a', 'k', 'e', '{}')});
	is($node->safe_psql($db, q{SELECT outbox.wait_until_idle('60 s')}), 't', "$encodings{$db}: and so is the worker");
	is($kafka->count($db), 2, 'by Kafka, with a password and with a file');
	is($redis->xlen("$db.gr\xc3\xb6sse"), 2, 'by Redis, with a password and with a user');
}

# What UTF-8 has no character for would be refused by every broker: it is refused where it is written, and the secret is not repeated.
$node->safe_psql('postgres', q{CREATE DATABASE euc ENCODING 'EUC_JP' LOCALE 'C' TEMPLATE template0});
$node->safe_psql('euc', q{CREATE EXTENSION outbox; CREATE SERVER r FOREIGN DATA WRAPPER outbox_redis});
my (undef, undef, $error) = $node->psql('euc', qq{SET client_encoding = 'EUC_JP'; CREATE USER MAPPING FOR PUBLIC SERVER r OPTIONS (password 'x\xa9\xa1y')});
like($error, qr/ERROR:  option "password" has a character that UTF-8 does not have/, 'a character that UTF-8 does not have');
unlike($error, qr/0xa9/, 'and which it is, nobody reads');

no_server_crashed($node);
$node->stop;
done_testing();
