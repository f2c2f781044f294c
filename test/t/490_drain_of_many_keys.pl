# Many keys that were paused are let go at once: the drain has all of their events, and not those of a few keys.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\noutbox.lone_emit = allow\n");
sub sql { return $node->safe_psql('postgres', @_) }

sql(q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', 'n')));
sql(q(SELECT outbox.pause(route => 'all', aggregate_type => 'k', aggregate_id => i::text, reason => 'test') FROM generate_series(1, 8) i));
sql(q(SELECT count(outbox.emit('k', i % 8 + 1, 'e', '{}'::jsonb)) FROM generate_series(1, 3200) i));
ok(wait_for_value($node, q(SELECT count(*) FROM outbox_internal.parked WHERE state = 'blocked'), '3200', 180), 'eight keys of 400 events are paused');

# The worker takes some of the first key and stays there. Of each key 256 are due, the others follow.
Outbox::Faults::arm('parked.claim.after', 'wait');
sql(q(SELECT outbox.resume(route => 'all', aggregate_type => 'k', aggregate_id => '1')));
ok(wait_until(sub { Outbox::Faults::waiting('parked.claim.after') }, 180), 'one is resumed, and a worker has taken some of it');
sql(q(SELECT outbox.resume(route => 'all', aggregate_type => 'k', aggregate_id => i::text) FROM generate_series(2, 8) i));
is(sql(q(SELECT string_agg(state || ' ' || n, ', ' ORDER BY state) FROM (SELECT state, count(*) AS n FROM outbox_internal.parked GROUP BY 1) p)), 'blocked 1152, retrying 2048', 'all are resumed');
ok(wait_for_value($node, q(SELECT total || ' ' || total_estimated FROM outbox.pg_stat_progress_outbox WHERE command = 'drain' AND route = 'all'), '3200 false', 60), 'the drain has them all')
	or diag(sql('SELECT * FROM outbox.pg_stat_progress_outbox'));
Outbox::Faults::release('parked.claim.after');
ok(wait_idle($node), 'they go');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox.pg_stat_progress_outbox', '0', 60), 'and nothing is under way');

no_server_crashed($node);
$node->stop;
done_testing();
