# A route leaves a broker that is down for a server that is well, and its relay worker is held while it gives the lanes back: it has
# asked for no place at the new server, so none is missing, and what it met at the old one is not told of the new one.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub doctor { my ($which) = @_; return sql(qq{SELECT string_agg("check" || ' ' || status || ' ' || detail || ' ' || coalesce(hint, ''), E'\n') FROM outbox.doctor() WHERE $which}) }

sql(q{CREATE SERVER good FOREIGN DATA WRAPPER outbox_log});
sql(q{CREATE SERVER bad FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '127.0.0.1:1')});
sql(q{SET client_min_messages = warning; SELECT outbox.create_route('r', server => 'bad', topic => 'other', aggregate_types => '{s}', lanes => 4)});
sql(q{SELECT count(outbox.emit('s', i::text, 't', '{}')) FROM generate_series(1, 20) i});
ok(wait_for_value($node, q{SELECT count(DISTINCT lane) FROM outbox.lag WHERE error_class = 'destination'}, '4', 120), 'all lanes have met that the broker is down');
like(doctor(q{"check" = 'lane'}), qr/^lane warning 4 lanes of 1 route to "bad" .*destination trouble/m, 'which is told');

Outbox::Faults::arm('release.before', 'wait');
sql(q{SET client_min_messages = warning; SELECT outbox.alter_route('r', server => 'good')});
# What is in flight is waited for, for seconds, while the lanes are shown as releasing.
my %early;
ok(wait_until(sub { $early{$_} = 1 foreach split /\n/, doctor(q{"check" IN ('figures', 'lane')}); Outbox::Faults::waiting('release.before') }, 120), 'the worker gives the lanes back');
my $early = join "\n", sort keys %early;
unlike($early, qr/^figures/m, 'until then no place is missing');
unlike($early, qr/to "good"/, 'and nothing is told of the new server');
unlike(doctor('true'), qr/^figures/m, 'nor while it does');
unlike(doctor(q{"check" = 'lane'}), qr/to "good"|right now|ALL_BROKERS/, 'nor then');
is(sql(q{SELECT sum(value) FROM outbox.metrics() WHERE name IN ('outbox_routes_without_figures', 'outbox_destinations_without_figures')}), '0', 'no route and no destination is without figures');
is(sql(q{SELECT count(*) FROM outbox.metrics() WHERE 'other' IN (labels ->> 'route', labels ->> 'destination')}), '0', 'and none is counted as another');
is(sql(q{SELECT state, workers FROM outbox.destination WHERE server = 'good'}), 'unused|0', 'nobody uses the new server yet');
is(sql(q{SELECT labels ->> 'outbox_destination_state' FROM outbox.metrics() WHERE name = 'outbox_destination_state' AND labels ->> 'destination' = 'good' AND value = 1}), 'unused', 'in the figures, too');

Outbox::Faults::release('release.before');
ok(wait_idle($node, 120), 'delivered at the new server');
ok(wait_for_value($node, q{SELECT state FROM outbox.destination WHERE server = 'good'}, 'closed', 30), 'which is used now');
is(doctor(q{"check" IN ('figures', 'lane') AND status <> 'ok'}), '', 'all is well');
is(sql(q{SELECT sum(value) FROM outbox.metrics() WHERE name = 'outbox_events_published_total' AND labels ->> 'destination' = 'good'}), '20', 'and counted there');
no_server_crashed($node);
done_testing();
