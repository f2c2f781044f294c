# A transaction at REPEATABLE READ or SERIALIZABLE, whose snapshot is older than what others have committed: what it is told of
# undelivered events is what there is, not what it could see: drop_route() with its number and in the audit, wait_until_idle(),
# wait_for().
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 1\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', $_[0]) }
redis_route($node, $redis, 'kept', topic => q('kept'));

foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	sql(q(SELECT outbox.create_route('going', 'kept', topic => 'going')));
	# Once the worker has delivered for it no row of the route changes, which would be a conflict of its own (40001).
	my $first = sql(q(SELECT outbox.emit('a', '1', 'first', '{}')));
	is(sql("SELECT outbox.wait_for('$first', '30 s')"), 't', "$level: the route is at work");
	sql(q(SELECT outbox.pause('going', reason => 'to look')));
	ok(wait_for_value($node, q(SELECT state FROM outbox.lag WHERE route = 'going'), 'paused', 30), 'and paused');
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query_safe("BEGIN ISOLATION LEVEL $level; SELECT 1");
	my $id = sql(q(SELECT outbox.emit('a', '1', 'late', '{}')));
	is($session->query(q(SELECT outbox.wait_until_idle('2 s'))), 'f', 'wait_until_idle() knows of what was committed since');
	is($session->query("SELECT outbox.wait_for('$id', '0')"), 'f', 'wait_for() too');
	is($session->query(q(SELECT outbox.drop_route('going'))), 1, 'drop_route() says what it leaves unsent');
	$session->query('COMMIT');
	$session->quit;
	is(sql(q(SELECT detail->>'pending' FROM outbox.audit WHERE action = 'drop_route' ORDER BY at DESC LIMIT 1)), 1, 'and the audit');
	is(sql(q(SELECT outbox.wait_until_idle('30 s'))), 't', 'what is left is delivered');
}
is($redis->xlen('kept'), 6, 'to the route that stays');
no_server_crashed($node);
done_testing();
