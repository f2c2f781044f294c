# CREATE EXTENSION and ALTER EXTENSION UPDATE write no temporary file, whatever memory the session has for a sort; what it has is
# afterwards what it was, inside the transaction, too.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => stage_with('outbox--0.1.sql'));
$node->safe_psql('postgres', 'CREATE DATABASE older');
$node->safe_psql('older', q(CREATE EXTENSION outbox VERSION '0.1'));

local $ENV{PGOPTIONS} = '-c temp_file_limit=0 -c work_mem=64kB';
foreach my $case ([ 'postgres', 'CREATE EXTENSION outbox' ], [ 'older', q(ALTER EXTENSION outbox UPDATE) ])
{
	my ($database, $command) = @$case;
	my ($status, $out, $err) = $node->psql($database, 'SELECT count(*) FROM (SELECT * FROM generate_series(1, 100000) ORDER BY random()) s');
	like($err, qr/temp_file_limit/, "$database: a session has no room for a temporary file");
	($status, $out, $err) = $node->psql($database, "BEGIN; $command; SHOW work_mem; COMMIT; SHOW work_mem");
	is($status, 0, "$command needs none") or diag $err;
	is($out, "64kB\n64kB", "$command: the session's own memory is as before");
	is($node->safe_psql($database, 'SELECT extversion FROM pg_extension WHERE extname = ' . q('outbox')), '0.2', "$database has it");
}

no_server_crashed($node);
done_testing();
