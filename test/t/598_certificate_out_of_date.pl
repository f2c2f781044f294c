# A broker whose certificate has expired, or is of another name, is said to have just that, by test_server(), in outbox.destination and in the
# server's log: the advice does not end at our own options. (A listener of openssl's stands for the broker: nothing comes after the handshake.)
use strict;
use warnings;

use IPC::Run ();
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
sub openssl { my (@arguments) = @_; my $out = ''; IPC::Run::run([ 'openssl', @arguments ], '<', \undef, '>&', \$out) or die "openssl @arguments: $out"; return }
append_to_file("$dir/ca.cnf", <<"EOC");
[ca]
default_ca=d
[d]
database=$dir/index
serial=$dir/serial
new_certs_dir=$dir
default_md=sha256
policy=p
unique_subject=no
[p]
commonName=supplied
[e]
subjectAltName=DNS:localhost
EOC
append_to_file("$dir/index", '');
append_to_file("$dir/serial", "01\n");
openssl(qw(req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout), "$dir/ca.key", '-out', "$dir/ca.pem");
my %dates = (expired => [ '20200101000000Z', '20200201000000Z' ], early => [ '20490101000000Z', '20490201000000Z' ], good => [ '20200101000000Z', '20490101000000Z' ]);
my (%port, @listeners);
foreach my $name (sort keys %dates)
{
	openssl(qw(req -newkey rsa:2048 -nodes -subj), "/CN=$name", '-keyout', "$dir/$name.key", '-out', "$dir/$name.csr");
	openssl(qw(ca -batch -notext -extensions e -config), "$dir/ca.cnf", '-cert', "$dir/ca.pem", '-keyfile', "$dir/ca.key", '-in', "$dir/$name.csr",
		'-out', "$dir/$name.pem", '-startdate', $dates{$name}[0], '-enddate', $dates{$name}[1]);
	$port{$name} = PostgreSQL::Test::Cluster::get_free_port();
	push @listeners, IPC::Run::start([ qw(openssl s_server -quiet -accept), $port{$name}, '-cert', "$dir/$name.pem", '-key', "$dir/$name.key" ],
		'<', \my $nothing, '>', '/dev/null', '2>', '/dev/null');
}
my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub server
{
	my ($name, $address, $more) = @_;
	return sql(qq{CREATE SERVER $name FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$address', "security.protocol" 'ssl', "ssl.ca.location" '$dir/ca.pem')});
}
server('expired', "localhost:$port{expired}");
server('early', "localhost:$port{early}");
server('misnamed', "127.0.0.1:$port{good}");
server('unknown', "localhost:$port{good}");
openssl(qw(req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=another -keyout), "$dir/another.key", '-out', "$dir/another.pem");
sql(qq{ALTER SERVER unknown OPTIONS (SET "ssl.ca.location" '$dir/another.pem')});
server('trusted', "localhost:$port{good}");

my %said = (expired => 'certificate has expired', early => 'certificate is not yet valid', misnamed => 'IP address mismatch', unknown => 'unable to get local issuer certificate');
foreach my $name (sort keys %said)
{
	my $row = '';
	ok(wait_until(sub { $row = sql("SELECT error_class, error_code, detail, hint FROM outbox.test_server('$name', timeout => '30 s') WHERE NOT ok"); $row !~ /TIMEOUT/ }, 120),
		"$name: an answer");
	like($row, qr/^config\|_SSL\|.*certificate verify failed: $said{$name}\|/, "$name: the reason");
	like($row, $said{$name} =~ /certificate (?:has|is)/ ? qr/out of its dates, by this machine's clock/ : qr/ssl\.ca\.pem.*valid now/, "$name: the hint");
}
# What is accepted stays the same: this one has nothing to say of certificates.
unlike(sql(q{SELECT string_agg(concat_ws(' ', detail, hint), ' ') FROM outbox.test_server('trusted', timeout => '3 s')}), qr/verify|out of its dates/, 'a certificate that is well');

sql(q{SET outbox.test_new_routes = off; SELECT outbox.create_route('expired', server => 'expired', topic => 't'); SELECT outbox.emit('order', 1, 'order.created', '{}')});
ok(wait_until(sub { sql(q{SELECT error_message FROM outbox.destination WHERE server = 'expired'}) =~ /certificate verify failed: certificate has expired/ }, 120), 'the destination has the reason');
ok(wait_until(sub { slurp_file($node->logfile) =~ /WARNING:  outbox: destination "expired" is in trouble: .*certificate has expired/ }, 60), 'the log, too');
like(slurp_file($node->logfile), qr/HINT:  Where the error speaks of the destination's certificate \(it has expired/, 'with what to do');
ok(wait_until(sub { sql(q{SELECT count(*) FROM outbox.doctor() WHERE hint ~ 'it has expired, or is of another name'}) > 0 }, 60), 'as doctor() has it');
$node->stop;
$_->kill_kill foreach @listeners;
done_testing();
