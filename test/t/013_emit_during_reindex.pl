# Sessions emit while the day tables' indexes are rebuilt again and again: every event can be found through the index
# that is left in the end. (Written to only one of the two indexes that exist meanwhile, events would be lost to readers.)
# matrix: C8
use strict;
use warnings;

use Outbox::Test;
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
$node->safe_psql('postgres', q{SELECT outbox.emit('order', 1, 'first', '{}')});
my $script = $node->basedir . '/emit.sql';
append_to_file($script, q{
BEGIN;
SELECT outbox.emit('order', :client_id, 'e', '{}');
SELECT outbox.emit_many('order', NULL, 'many', '{1,2,3}');
\if :client_id
SELECT pg_sleep(0.002);
\endif
COMMIT;
});
my $pgbench = IPC::Run::start(
	[ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-c', 4, '-T', 8, '-f', $script, 'postgres' ],
	'<', \undef, '>', \my $out, '2>', \my $err);
my $rebuilt = 0;
while ($pgbench->pumpable)
{
	my ($status, undef, $stderr) = $node->psql('postgres', 'REINDEX TABLE CONCURRENTLY outbox_internal.log');
	$status == 0 ? $rebuilt++ : diag($stderr);
	eval { $pgbench->pump_nb };
}
ok($pgbench->finish, 'no emit failed') or diag($err);
cmp_ok($rebuilt, '>=', 3, "the index was rebuilt $rebuilt times");
my $day = $node->safe_psql('postgres', q{SELECT tableoid::regclass FROM outbox_internal.log LIMIT 1});
is($node->safe_psql('postgres', qq{SELECT count(*) FROM pg_index WHERE indrelid = '$day'::regclass AND indisvalid AND indisready}),
	'1', 'one good index is left');
my $all = $node->safe_psql('postgres', "SELECT count(*) FROM $day");
cmp_ok($all, '>', 100, "$all events");
is($node->safe_psql('postgres', qq{
	SET enable_seqscan = off; SET enable_bitmapscan = off;
	SELECT count(*) FROM $day WHERE xid > '0'}), $all, 'every one of them is in the index');
like($node->safe_psql('postgres', qq{
	SET enable_seqscan = off; SET enable_bitmapscan = off;
	EXPLAIN (COSTS off) SELECT count(*) FROM $day WHERE xid > '0'}), qr/Index.*Scan/, 'which is what the count read');
no_server_crashed($node);
done_testing();
