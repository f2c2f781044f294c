# 200 routes to 70 destinations, and places for the figures of 100 and 16: the rest is counted together, nothing is missing in sums,
# the log says it once and doctor() while it lasts, and nobody calls a destination unused that has no place to be shown in.
# matrix: M1
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.max_series = 100\noutbox.max_destinations = 16\nmax_locks_per_transaction = 512\noutbox.workers = 2\n");
sub sql { return $node->safe_psql('postgres', @_) }
sub figure { my ($name, $labels) = @_; $labels //= '{}'; return sql("SELECT coalesce(sum(value), 0) FROM outbox.metrics() WHERE name = 'outbox_$name' AND labels @> '$labels'") }

sql(q(DO $$ BEGIN FOR i IN 1 .. 70 LOOP EXECUTE format('CREATE SERVER d%s FOREIGN DATA WRAPPER outbox_log', i); END LOOP; END $$));
sql(q(SELECT count(outbox.create_route('r' || i, server => ('d' || 1 + i % 70)::name, aggregate_types => ARRAY['t' || i % 10])) FROM generate_series(1, 200) i));
ok(wait_for_value($node, q(SELECT sum(value) FROM outbox.metrics() WHERE name = 'outbox_lanes' AND labels @> '{"state": "owned"}'), '200', 120), 'all lanes are owned');
sql(q(SELECT count(outbox.emit_text('t' || i % 10, i::text, 'a.b', 'x')) FROM generate_series(1, 50) i));
ok(wait_idle($node, 120), 'delivered');

# Each of 50 events is of one of ten types, each of which 20 routes take.
is(figure('events_published_total'), 50 * 20, 'nothing is missing in the sum');
cmp_ok(figure('events_published_total', '{"route": "other", "destination": "other"}'), '>', 0, 'some of it is counted together');
is(sql(q(SELECT count(DISTINCT labels ->> 'route') FROM outbox.metrics() WHERE name = 'outbox_events_published_total' AND labels ->> 'route' <> 'other')), 100, 'a hundred have figures of their own');
is(figure('routes_without_figures'), 100, 'it is told how many have not');
is(figure('destinations_without_figures'), 54, 'and of destinations');
is(sql(q(SELECT round(rate * 0 + events) FROM outbox.latency WHERE route = 'other' AND period = 'minute')) > 0 ? 'some' : 'none', 'some', 'people see them together, too');
my $doctor = sql(q(SELECT string_agg(status || ' ' || detail || ' ' || hint, E'\n') FROM outbox.doctor() WHERE "check" = 'figures'));
like($doctor, qr/^warning .*counts some routes .* 100 places .*outbox\.max_series = 200/m, 'doctor() says so of routes');
like($doctor, qr/^warning .*counts some destinations .* 16 places .*outbox\.max_destinations = 256/m, 'and of destinations, each with what to set');
sql(q(SELECT count(outbox.create_route('more' || i, server => 'd1', aggregate_types => '{nothing}')) FROM generate_series(1, 300) i));
like(sql(q(SELECT hint FROM outbox.doctor() WHERE "check" = 'figures' AND detail ~ 'routes')), qr/outbox\.max_series = 800;/, 'which is enough for all that there are');
sql(q(SELECT count(outbox.drop_route('more' || i)) FROM generate_series(1, 300) i));

# --- what has no place to be shown in is not unused ---
is(sql(q(SELECT count(*) FROM outbox.destination)), 70, 'all destinations are there');
is(sql(q(SELECT count(*) FROM outbox.destination WHERE state = 'unused')), 0, 'none is called unused');
is(sql(q(SELECT count(*) > 0 AND bool_and(since IS NULL AND next_try IS NULL) FROM outbox.destination WHERE state = 'not shown')), 't', 'those without a place are not shown');
sql('CREATE SERVER idle FOREIGN DATA WRAPPER outbox_log');
is(sql(q(SELECT state FROM outbox.destination WHERE server = 'idle')), 'unused', 'one without a route is unused');

# --- once, also after restarts of the workers ---
sql(q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'outbox relay'));
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.worker WHERE kind = 'relay' AND state = 'running'), '2', 60), 'workers are back');
sql(q(SELECT count(outbox.emit_text('t' || i % 10, i::text, 'a.b', 'x')) FROM generate_series(1, 50) i));
ok(wait_idle($node, 120), 'delivered');
is(figure('events_published_total'), 2 * 50 * 20, 'the sums go on');
my $log = slurp_file($node->logfile);
my $routes = () = $log =~ /not every route has figures of its own/g;
my $destinations = () = $log =~ /not every destination has figures of its own/g;
is("$routes $destinations", '1 1', 'the log says each once');

# --- over when they are gone ---
# Those stay that were counted together until now.
my @stay = split /\n/, sql(q(SELECT r.name FROM outbox.route r WHERE NOT EXISTS (SELECT FROM outbox.metrics() m
	WHERE m.name = 'outbox_events_published_total' AND m.labels ->> 'route' = r.name) ORDER BY r.id LIMIT 15));
is(scalar @stay, 15, 'fifteen routes have no figures of their own');
# The workers show the lanes of the others for a while yet: long after the lanes that stay could be claimed anew.
Outbox::Faults::put('lanes.shown_on', 1);
sql("SET outbox.allow_loss = on; SELECT count(outbox.drop_route(name)) FROM outbox.route WHERE name <> ALL ('{" . join(',', @stay) . "}')");
sleep 3;  # in which nobody may take a place whose lane is shown
is(figure('routes_without_figures'), 15, 'a place is not taken while a worker shows a lane of the route that has it');
Outbox::Faults::disarm('lanes.shown_on');
ok(wait_for_value($node, q(SELECT sum(value) FROM outbox.metrics() WHERE name IN ('outbox_routes_without_figures', 'outbox_destinations_without_figures')), '0', 60), 'with fewer routes each has a place');
# Figures are counted in one statement and doctor() looks in another: a worker may take a place in between.
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'figures'), '0', 10), 'and doctor() says no more');
no_server_crashed($node);
done_testing();
