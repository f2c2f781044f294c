# A route named other, to a server named other, beside those beyond outbox.max_series and outbox.max_destinations that count together under
# that name: each sample is told once, as the text formats want it, and is the sum.
# matrix: M1
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.max_series = 1\noutbox.max_destinations = 16\noutbox.workers = 1\n");
sub sql { return $node->safe_psql('postgres', @_) }
sub figure { my ($name, $labels) = @_; return sql("SELECT sum(value) FROM outbox.metrics() WHERE name = 'outbox_$name' AND labels @> '$labels'") }

# The first takes the only place for figures.
sql('CREATE SERVER other FOREIGN DATA WRAPPER outbox_null');
sql(q(SELECT outbox.create_route('other', server => 'other')));
sql(q(SELECT count(outbox.emit('order', i, 'order.created', '{}')) FROM generate_series(1, 7) i));
ok(wait_idle($node), 'the first route delivers');
is(figure('events_published_total', '{"route": "other", "destination": "other"}'), 7, 'what a route of that name has published');
sql(q(DO $$ BEGIN FOR i IN 1 .. 20 LOOP
	EXECUTE format('CREATE SERVER d%s FOREIGN DATA WRAPPER outbox_null', i);
	PERFORM outbox.create_route('r' || i, server => ('d' || i)::name);
END LOOP; END $$));
ok(wait_for_value($node, q(SELECT sum(value) FROM outbox.metrics() WHERE name = 'outbox_lanes' AND labels @> '{"state": "owned"}'), '21', 60), 'all lanes are owned');
sql(q(SELECT count(outbox.emit('order', i, 'order.created', '{}')) FROM generate_series(1, 100) i));
ok(wait_idle($node), 'all deliver');
ok(wait_for_value($node, q(SELECT sum(value) > 1 FROM outbox.metrics() WHERE name IN ('outbox_routes_without_figures', 'outbox_destinations_without_figures')), 't', 30), 'routes count together');
cmp_ok(figure('destinations_without_figures', '{}'), '>', 0, 'destinations, too');

is(sql(q(SELECT name, labels, count(*) FROM outbox.metrics() GROUP BY 1, 2 HAVING count(*) > 1 ORDER BY 1, 2)), '', 'no sample is told twice');
foreach my $format (qw(openmetrics prometheus))
{
	is(sql("SELECT sample FROM (SELECT regexp_replace(line, ' [^ ]+\$', '') AS sample FROM regexp_split_to_table(outbox.metrics_text('$format'), '\n') line WHERE line !~ '^#') s GROUP BY 1 HAVING count(*) > 1"), '', "nor in the text: $format");
}
my $sum = 7 + 21 * 100;
is(figure('events_published_total', '{"route": "other", "destination": "other"}'), $sum, 'all of them together');
is(figure('commit_to_ack_seconds_bucket', '{"route": "other", "destination": "other", "le": "+Inf"}'), figure('commit_to_ack_seconds_count', '{"route": "other", "destination": "other"}'), 'a histogram is one');
is(figure('destination_ack_seconds_count', '{"route": "other", "destination": "other"}'), $sum, '... of all of them');
is(sql(q(SELECT count(*) FROM (SELECT value < lag(value) OVER (ORDER BY (labels ->> 'le')::float8) AS falls FROM outbox.metrics() WHERE name = 'outbox_destination_ack_seconds_bucket') b WHERE falls)), 0, 'and never falls');
no_server_crashed($node);
done_testing();
