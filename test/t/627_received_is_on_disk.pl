# What a consumer acknowledges to the broker is on disk, also where its session has synchronous_commit = off: the server stops
# at once behind the commit, and mark and effect are both there. (Lost together they would not come again: the broker has the acknowledgement.)
use strict;
use warnings;

use Outbox::Test;
use Test::More;

# The writer of the WAL looks every ten seconds, so that what a commit has not written by itself is not there.
my $node = new_node(extension => 0, conf => "shared_preload_libraries = ''\nautovacuum = off\nwal_writer_delay = 10s\n");
$node->safe_psql('postgres', 'SET client_min_messages = error; CREATE EXTENSION outbox; CREATE TABLE effect (of text); CREATE ROLE app LOGIN SUPERUSER; ALTER ROLE app SET synchronous_commit = off');

my %call = (
	'receive() of an undated id' => q{outbox.receive('c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')},
	'receive() of a dated id' => q{outbox.receive('c', outbox_id)},
	'receive_many()' => q{(SELECT count(*) = 2 FROM outbox.receive_many('c', ARRAY[outbox_id, gen_random_uuid()]))},
	'receive() of the newest' => q{outbox.receive('c', 's', 'k', 1763800000000000)},
	'within a savepoint' => q{outbox.receive('c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12')},
);
foreach my $name (sort keys %call)
{
	my $id = $node->safe_psql('postgres', q{SELECT lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '70008000000000000001'});
	my $call = $call{$name} =~ s/outbox_id/'$id'::uuid/gr;
	my ($savepoint, $release) = $name =~ /savepoint/ ? ('SAVEPOINT s;', 'RELEASE s;') : ('', '');
	is($node->safe_psql('postgres', "BEGIN; $savepoint INSERT INTO effect SELECT '$name'; SELECT $call; $release COMMIT", extra_params => [ '-U', 'app' ]),
		't', "$name: new");
	$node->stop('immediate');
	$node->start;
	is($node->safe_psql('postgres', "SELECT count(*) FROM effect WHERE of = '$name'"), '1', "$name: the effect has outlived a stop right behind the commit");
	like($node->safe_psql('postgres', "SELECT $call"), qr/^f$/, "$name: and so has the mark") if $name !~ /many/;
}

done_testing();
