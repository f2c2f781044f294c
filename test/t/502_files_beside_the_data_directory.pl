# Options of a destination do not open the data directory to its sink process: a file that lies beside it is read, but its directory
# stays closed; what only begins with a slash names no file; and neither does a directory that holds a data directory. Elsewhere a file's
# directory is open, as renewed certificates need it.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $data = $node->data_dir;
(my $beside = $data) =~ s,/[^/]+$,,;
my ($key, $certificate) = Outbox::Kafka::key_and_certificate();
append_to_file("$beside/ca.pem", $certificate);
my $apart = PostgreSQL::Test::Utils::tempdir();
append_to_file("$apart/ca.pem", $certificate);
my $result = "$ENV{OUTBOX_FAULT_DIR}/escape.result";
Outbox::Faults::put('escape', "$data/PG_VERSION");
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql('CREATE ROLE so; GRANT USAGE ON FOREIGN DATA WRAPPER outbox_kafka, outbox_redis TO so; GRANT CREATE ON DATABASE postgres TO so');

# What a sink process with these options could do that was taken over.
sub try_with
{
	my ($role, $options, $wrapper) = @_;
	unlink $result;
	sql("SET ROLE $role; CREATE SERVER s FOREIGN DATA WRAPPER " . ($wrapper // 'outbox_kafka') . " OPTIONS ($options)");
	sql(q{SELECT FROM outbox.test_server('s', timeout => '500 ms')});
	my ($did) = split /\n/, eval { slurp_file($result) } // '';
	sql('DROP SERVER s');
	return $did // '';
}

my $here = '"bootstrap.servers" \'127.0.0.1:1\', "security.protocol" \'ssl\'';
my $did = try_with('postgres', $here);
if ($did !~ /landlock/)
{
	plan skip_all => 'no landlock on this kernel: ' . $did;
}
my $closed = qr/ read refused list refused write refused move refused/;
like($did, $closed, 'without any file');
foreach my $case (
	[ 'a file beside the data directory', 'postgres', qq("ssl.ca.location" '$beside/ca.pem') ],
	[ 'the data directory as a file', 'postgres', qq("ssl.ca.location" '$data') ],
	[ 'a directory above it', 'postgres', qq("ssl.crl.location" '$beside/') ],
	[ 'a directory of it', 'postgres', qq("ssl.ca.location" '$data/global') ],
	[ 'the root directory', 'postgres', q("ssl.ca.location" '/') ],
	[ 'a text that is no file name', 'so', qq("client.id" '$data') ],
	[ 'another', 'so', q("client.rack" '/') ],
	[ 'a file apart', 'postgres', qq("ssl.ca.location" '$apart/ca.pem') ])
{
	my ($what, $role, $option) = @$case;
	like(try_with($role, "$here, $option"), $closed, "$what does not open it");
}
$did = try_with('postgres', qq(host '127.0.0.1', port '1', tls 'true', ca_file '$beside/ca.pem'), 'outbox_redis');
like($did, $closed, 'nor does a file of Redis');

# Where another cluster lies: known by its PG_VERSION. And a tablespace outside.
my $other = PostgreSQL::Test::Utils::tempdir();
mkdir $_ or die $! foreach "$other/18", "$other/18/main", "$other/space";
append_to_file("$other/18/main/PG_VERSION", "18\n");
append_to_file("$other/ca.pem", $certificate);
Outbox::Faults::put('escape', "$other/18/main/PG_VERSION");
$did = try_with('postgres', qq($here, "ssl.ca.location" '$other/ca.pem'));
like($did, $closed, "another server's data directory");
my $space = PostgreSQL::Test::Utils::tempdir();
mkdir "$space/space" or die $!;
append_to_file("$space/ca.pem", $certificate);
append_to_file("$space/space/file", "x\n");
Outbox::Faults::put('escape', "$space/space/file");
sql("CREATE TABLESPACE away LOCATION '$space/space'");
$did = try_with('postgres', qq($here, "ssl.ca.location" '$space/ca.pem'));
like($did, $closed, 'a tablespace outside of the data directory');
# The directory of a file apart is open: what is renamed into it can be read.
append_to_file("$apart/other", "x\n");
Outbox::Faults::put('escape', "$apart/other");
$did = try_with('postgres', qq($here, "ssl.ca.location" '$apart/ca.pem'));
like($did, qr/ read done list done write refused/, 'a directory apart is open for reading, no more');
is(slurp_file("$data/PG_VERSION") =~ /^\d+$/ ? 1 : 0, 1, 'the data directory is as it was');
no_server_crashed($node);
$node->stop;
done_testing();
