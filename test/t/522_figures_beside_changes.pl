# What the keeper has counted behind a lane that stands outlives a change of other routes: not for a moment is it an estimate, while
# routes come and go, are altered and paused. A change of what the route itself wants, and what is erased, make
# it count anew.
# matrix: M9
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.max_series = 200\noutbox.workers = 1\n");
sub sql { return $node->safe_psql('postgres', @_) }
sub emit { my ($type, $count) = @_; return sql("SET outbox.lone_emit = allow; DO \$\$ BEGIN FOR i IN 1 .. $count LOOP PERFORM outbox.emit_text('$type', 'k' || i % 7, 'e', 'x'); IF i % 50 = 0 THEN COMMIT; END IF; END LOOP; END \$\$") }
# The two figures of a route: what waits, and whether that is an estimate.
my $busy = q(SELECT string_agg(value::text, ' ' ORDER BY name DESC) FROM outbox.metrics() WHERE name IN ('outbox_pending_events', 'outbox_pending_estimated') AND labels ->> 'route' = 'busy');
my $lag = q(SELECT pending FROM outbox.lag WHERE route = 'busy');

sql('CREATE SERVER held FOREIGN DATA WRAPPER outbox_null');
sql(q(SELECT outbox.create_route('busy', server => 'held', aggregate_types => '{busy}'), outbox.create_route('other', server => 'held', aggregate_types => '{other}')));
sql(q(SELECT outbox.pause(server => 'held', reason => 'test')));
emit('busy', 6000);
emit('more', 50);
ok(wait_for_value($node, $busy, '6000 0', 60), 'what waits is counted');

# --- others change: each time the figures are asked for at once, before the keeper can have counted again ---
my @changes = (
	'a route is made' => q(SELECT outbox.create_route('new', server => 'held', aggregate_types => '{new}')),
	'a route is altered' => q(SELECT outbox.alter_route('other', aggregate_types => '{other,new}')),
	'a route is paused' => q(SELECT outbox.pause('other', reason => 'test')),
	'a route is resumed' => q(SELECT outbox.resume('other')),
	'a route goes' => q(SELECT outbox.drop_route('new')),
);
while (my ($change, $call) = splice @changes, 0, 2)
{
	is(sql("SET client_min_messages = error; DO \$do\$ BEGIN EXECUTE \$\$$call\$\$; END \$do\$; $busy; $lag"), "6000 0\n6000", $change);
}

# --- the same while much is emitted that no paused route wants ---
my $noise = $node->background_psql('postgres');
$noise->query_until(qr/begun/, "\\echo begun\nSET outbox.lone_emit = allow; DO \$\$ BEGIN FOR i IN 1 .. 40000 LOOP PERFORM outbox.emit_text('noise', 'k' || i, 'e', 'x'); COMMIT; END LOOP; END \$\$;\n");
my (%figure, %counted);
my $rounds = 0;
foreach (1 .. 1000)
{
	my $emitting = sql(q(SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ 'noise' AND pid <> pg_backend_pid()));
	sql("SELECT outbox.create_route('late$rounds', server => 'held', aggregate_types => '{late}')") if ++$rounds % 3 == 0 && $rounds < 30;
	my $figures = sql($busy);
	$figure{ (split / /, $figures)[0] }++;
	$counted{ sql($lag) }++;
	last if !$emitting && $rounds > 6 && $figures =~ / 0$/;
}
is(join(' ', sort keys %figure), '6000', "in the figures, in $rounds rounds");
is(join(' ', sort keys %counted), '6000', 'and in outbox.lag');
$noise->quit;

# --- what the route itself wants changes, and what is erased ---
is(sql(q(SET client_min_messages = error; SELECT outbox.alter_route('busy', aggregate_types => '{busy,more}'); ) . "SELECT ($busy) <> '6000 0'"), "\nt", 'another filter: what was counted tells nothing');
ok(wait_for_value($node, $busy, '6050 0', 60), 'it is counted anew');
my $forget = q(CALL outbox.forget('busy', 'k3', undelivered => true, dry_run => false));
sql($forget);
ok(wait_for_value($node, $busy, '5193 0', 60), 'what is erased waits no more');
no_server_crashed($node);
done_testing();
