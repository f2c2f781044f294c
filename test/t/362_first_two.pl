# The first two of a database at the same moment: the second create_route() waits for the first, and is made whatever becomes of
# it, in REPEATABLE READ, too; whoever emits the first event meanwhile waits for neither.
# matrix: R66
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => "outbox.lone_emit = allow\n");
my $number = 0;
foreach my $level ('READ COMMITTED', 'REPEATABLE READ')
{
	foreach my $end (qw(COMMIT ROLLBACK))
	{
		my $case = "$level, $end";
		my $database = 'first_' . ++$number;
		$node->safe_psql('postgres', "CREATE DATABASE $database");
		$node->safe_psql($database, 'CREATE EXTENSION outbox; CREATE SERVER nul FOREIGN DATA WRAPPER outbox_null');
		my $first = $node->background_psql($database, on_error_stop => 1, timeout => 600);
		$first->query_safe("BEGIN ISOLATION LEVEL $level");
		$first->query_safe(q(SELECT outbox.create_route('first', 'nul')));

		$node->safe_psql($database, q(SELECT outbox.emit('order', '1', 'x', '{}')));
		ok(wait_for_value($node, 'SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ \'table maker\'', '0'), "$case: who was to make a table has ended");
		is($node->safe_psql($database, q(SELECT count(*) > 0 FROM pg_inherits WHERE inhparent = 'outbox_internal.log'::regclass)), 't',
			'the first event has its table, before the first route is there');

		my $second = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($database), '-c', "BEGIN ISOLATION LEVEL $level", '-c', 'SELECT 1',
			'-c', q(SELECT outbox.create_route('second', 'nul')), '-c', 'COMMIT' ], '<', \'', '>', \my $out, '2>', \my $err);
		ok(wait_for_value($node, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ '''second'''}, '1'), 'the second route waits for the first');
		$first->query_safe($end);
		$first->quit;
		ok($second->finish, 'the second is made') or diag($err);
		is($node->safe_psql($database, q(SELECT string_agg(name, ' ' ORDER BY name) FROM outbox.route)), $end eq 'COMMIT' ? 'first second' : 'second', 'so there is each that was committed');
		is($node->safe_psql($database, 'SELECT (SELECT count(*) FROM outbox_internal.identity), (SELECT count(*) FROM outbox_internal.origin)'), '1|1', 'and one identity');
		is($node->safe_psql($database, q(SELECT outbox.wait_until_idle('90 s'))), 't', 'the workers serve it');
		$node->safe_psql('postgres', "DROP DATABASE $database");
	}
}
no_server_crashed($node);
done_testing();
