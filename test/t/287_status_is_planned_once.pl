# outbox.status(id) of an event that many routes have delivered, or given up: as many statements are planned for forty routes as for
# three. (One for each of a hundred routes took 200 ms.) And each route has its own answer.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\noutbox.max_series = 64\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

sql('CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null');
sub routes { my ($from, $to) = @_; return sql("SELECT count(outbox.create_route('r' || i, server => 'nowhere', aggregate_types => '{order}')) FROM generate_series($from, $to) i") }
sub emit
{
	my $id = sql(q{SET outbox.lone_emit = allow; SELECT outbox.emit('order', 'k', 'order.created', '{}')});
	ok(wait_idle($node), 'delivered');
	return $id;
}
# The second call of a session: the first one plans what the session keeps.
sub plans
{
	my ($id) = @_;
	my $call = "SELECT count(*) FROM outbox.status('$id')";
	my (undef, undef, $stderr) = $node->psql('postgres', "$call; SET client_min_messages = log; SET log_planner_stats = on; $call");
	return scalar(() = $stderr =~ /PLANNER STATISTICS/g);
}

routes(1, 3);
my $few = plans(my $first = emit());
cmp_ok($few, '>', 0, 'planning is seen');
routes(4, 40);
my $id = emit();
cmp_ok(plans($id), '<=', $few + 1, 'forty routes that have delivered it: no more');
is(sql("SELECT count(*) || ' ' || count(delivered_at) || ' ' || count(DISTINCT route) || ' ' || count(window_to) FROM outbox.status('$id') WHERE state = 'delivered'"), '40 40 40 40', 'each has when');
is(sql("SELECT string_agg(route, ' ' ORDER BY route) FROM outbox.status('$first') WHERE state = 'delivered'"), 'r1 r2 r3', 'of the earlier one those that were there');
is(sql("SELECT count(*) FROM outbox.status('$id') s JOIN outbox.status('$first') f USING (route) WHERE s.delivered_at > f.delivered_at"), 3, 'and each event has its own');

# --- given up on every route, each with a reason of its own ---
sql(qq{SET outbox.allow_loss = on;
	INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, topic, error_class, error_code, error_message, attempts)
	SELECT r.id, 0, s.created_at, '$id', 'order', 'k', 'order.created', s.topic, 'message', 'MSG_SIZE_TOO_LARGE', 'too large', 1
	FROM outbox.status('$id') s JOIN outbox.route r ON r.name = s.route});
sql("SELECT count(outbox.skip('$id', 'of ' || name, name)) FROM outbox.route");
cmp_ok(plans($id), '<=', $few + 1, 'forty that have given it up: no more');
is(sql("SELECT count(*) FROM outbox.status('$id') WHERE state = 'skipped' AND reason = 'of ' || route"), 40, 'each has its reason');

no_server_crashed($node);
done_testing();
