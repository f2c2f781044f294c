# What a consumer acknowledges to the broker is on disk, also where its session has synchronous_commit = off: the server stops
# at once behind the commit, and mark and effect are both there. (Lost together they would not come again: the broker has the acknowledgement.)
# Of a stream that is the first position, without which received_to() does not know where to go on; and what an operator takes back is on disk, too.
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

# A stream's first position; what a crash takes back of those behind it comes again, as received_to() says.
sub begin_stream { return $node->safe_psql('postgres', "BEGIN; INSERT INTO effect SELECT 'stream'; SELECT outbox.receive_next('c', 'orders/0', $_[0]); COMMIT", extra_params => [ '-U', 'app' ]) }
foreach my $first (0, 7)
{
	is(begin_stream($first), 'next', "receive_next(): the first position that is seen, $first");
	$node->stop('immediate');
	$node->start;
	is($node->safe_psql('postgres', q{SELECT outbox.received_to('c', 'orders/0')}), $first, 'it has outlived a stop right behind the commit');
	is($node->safe_psql('postgres', q{DELETE FROM effect WHERE of = 'stream' RETURNING of}), 'stream', 'and so has its effect');
	$node->safe_psql('postgres', q{SELECT outbox.seek_stream('c', 'orders/0', NULL); CHECKPOINT});
}

# What an operator took back comes again by his hand, and would be dropped.
my %take_back = (
	'forget_received()' => [ q{outbox.receive('c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a21')}, q{outbox.forget_received('c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a21')}, 't' ],
	'reprocess()' => [ q{outbox.receive('c', 's', 'reprocessed', 1763800000000000)}, q{outbox.reprocess('c', '-infinity')}, 't' ],
	'forget_consumer()' => [ q{outbox.receive('d', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a21')}, q{outbox.forget_consumer('d')}, 't' ],
	'seek_stream()' => [ q{outbox.receive_next('c', 'made anew', 1000)}, q{outbox.seek_stream('c', 'made anew', NULL)}, 'next' ]);
foreach my $name (sort keys %take_back)
{
	my ($receive, $back, $new) = @{ $take_back{$name} };
	is($node->safe_psql('postgres', "SELECT $receive; SET synchronous_commit = off; SELECT count($back) >= 0"), "$new\nt", "$name takes back");
	$node->stop('immediate');
	$node->start;
	is($node->safe_psql('postgres', 'SELECT ' . $receive =~ s/1000/0/r), $new, "$name: it is taken back after a stop right behind it");
}

done_testing();
