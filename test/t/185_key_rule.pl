# A run of a key ends at a dead letter that holds it (on_failure => block), also where what is behind was made due before: by
# hand, or by a version that did not look. Sixty-five keys at once; what is behind goes when the dead ones have gone, in order.
# matrix: S3
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $keys = 65;
my $redis = Outbox::Redis->start;
my $node = new_node(conf => 'outbox.enabled = off');

sub sql { return $node->safe_psql('postgres', $_[0]) }

redis_route($node, $redis, 'r', topic => "'s'", on_failure => "'block'");

# Of each key: one that is due, a dead letter, one more that is due, one that is scheduled and due.
sql(qq{
	INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, order_key, due_at, aggregate_type, aggregate_id, event_type, payload, topic)
	SELECT r.id, 0, now() + (5 * k + n) * interval '1 us', gen_random_uuid(), (ARRAY['retrying', 'dead', 'retrying', 'scheduled'])[n],
	  k, CASE WHEN n <> 2 THEN now() END, 't', 'k' || k, 'n' || n, 'x', 's' FROM outbox.route r, generate_series(1, $keys) k, generate_series(1, 4) n;
});
sql($_) for 'ALTER SYSTEM SET outbox.enabled = on', 'SELECT pg_reload_conf()';
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.outcome WHERE outcome = 'delivered'}, $keys, 60), 'what is before the dead letters is delivered');
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'blocked'}, 2 * $keys, 60), 'what is behind waits');
is($redis->xlen('s'), $keys, 'and nothing of it was sent');
is(sql(q{SELECT count(*), bool_and(waiting = 2), string_agg(DISTINCT behind_state, ',') FROM outbox.blocked_key}), "$keys|t|dead",
	'outbox.blocked_key says behind whom');

sql(q{CALL outbox.discard_dead_letters(route => 'r', dry_run => false, reason => 'seen')});
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 60), 'when the dead letters have gone, so does it');
my (%last, %times);
my $overtaken = 0;
foreach my $entry (@{ $redis->entries('s') })
{
	$times{ $entry->{id} }++;
	$overtaken++ if ($last{ $entry->{key} } // 0) > $entry->{created_at};
	$last{ $entry->{key} } = $entry->{created_at};
}
is(scalar(keys %times), 3 * $keys, 'all of it');
is(scalar(grep { $_ > 1 } values %times), 0, 'once');
is($overtaken, 0, 'in the order of each key');

no_server_crashed($node);
done_testing();
