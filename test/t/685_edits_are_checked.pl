# retry() refuses an edit that emit() would have refused on the event's route: a payload that its registered schema forbids, a topic
# that the route does not know, a header whose name its format has; and asks no other route.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('r.a'), aggregate_types => q('{o}'), format => q('cloudevents'), options => q('{"topics_known": ["r.a", "r.b"]}'));
redis_route($node, $redis, 'other', topic => q('other'), aggregate_types => q('{o}'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub refused { my ($edit, $like, $name) = @_; return like(($node->psql('postgres', "SELECT outbox.retry(id, $edit) FROM outbox.parked_event WHERE route = 'r' AND aggregate_id = '1'"))[2], $like, $name) }
sql(q(SELECT outbox.event_schema('o', 'e', '{"type": "object", "required": ["total"]}', 3);
	SELECT outbox.emit('o', '1', 'e', '{"total": 1}', deliver_at => now() + interval '1 hour')));
ok(wait_for_value($node, q(SELECT string_agg(route || ' ' || state, ',' ORDER BY route) FROM outbox.parked_event), 'other scheduled,r scheduled', 60), 'parked on both');

refused(q(route, payload => '[]'), qr/payload does not match the schema of event "e" of "o".*HINT/s, 'a payload that the schema forbids');
refused(q(route, payload_bytes => '[]'), qr/payload does not match the schema/, 'as bytes, too');
refused(q(route, topic => 'r.c'), qr/route "r" does not know the topic "r.c".*r\.a, r\.b.*HINT/s, 'a topic that the route does not know');
refused(q(route, headers => '{"ce_id": "1"}'), qr/header name "ce_id" is taken.*Route "r".*HINT/s, 'a header that is the format\'s');
is(sql(q(SELECT string_agg(state, ',') FROM outbox.parked_event)), 'scheduled,scheduled', 'nothing has gone');
is(sql(q(SELECT outbox.retry(id, 'other', topic => 'elsewhere', headers => '{"ce_id": "1"}') FROM outbox.parked_event WHERE route = 'other')), '1', 'of another route nothing is asked');
is(sql(q(SELECT outbox.retry(id, 'r', topic => 'r.b', payload => '{"total": 2}', headers => '{"schema_version": "3"}') FROM outbox.parked_event WHERE route = 'r')), '1', 'what is right goes');
ok(wait_until(sub { $redis->xlen('r.b') == 1 && $redis->xlen('elsewhere') == 1 }), 'and arrives');
is(sql(q(SELECT count(*) FROM outbox.parked_event)), '0', 'both');
done_testing();
