# While a topic has left its lane: everything shows it, a change of the number of lanes waits for it without keeping others
# from flowing, and a restored dump
# brings what is parked and paused, silent until it is adopted. Nothing is lost, nothing twice, nothing overtakes.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $redis = Outbox::Redis->start;
my $node = new_node(conf => "outbox.workers = 2\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $emitted = 0;
sub emit
{
	my ($count) = @_;
	sql("SELECT count(outbox.emit(t, (i % 20)::text, 'e', to_jsonb(i))) FROM generate_series(1, $count) i, unnest('{a,b}'::text[]) t");
	$emitted += $count;
	return;
}

redis_route($node, $redis, 'r', topic => q('t.{aggregate_type}'));
emit(200);
ok(wait_idle($node), 'all is delivered');
sql(q(SELECT outbox.pause('r', topic => 't.b', reason => 'the test')));
ok(wait_for_value($node, 'SELECT topic FROM outbox_internal.side_topic', 't.b'), 'a paused topic leaves its lane');
emit(1000);
ok(wait_for_value($node, 'SELECT coalesce(side, 0), topic, pending FROM outbox.lag ORDER BY 1', "0||0\n1|t.b|1000"),
	'outbox.lag shows the lane, and what waits for the topic');
is($redis->xlen('t.a'), 1200, 'the other topic flows');
is($redis->xlen('t.b'), 200, 'this one does not');
is(sql('SELECT outbox.wait_until_idle(interval $$1 s$$)'), 'f', 'that is not idle');
my (undef, undef, $notice) = $node->psql('postgres', 'SELECT outbox.wait_until_idle(interval $$0.5 s$$)');
like($notice, qr/For lane 0 of route "r": topic "t.b" is paused\./, 'because of that topic');
is(sql(q(SELECT DISTINCT s.state, s.reason FROM outbox_internal.log l, outbox.status(l.id) s WHERE l.aggregate_type = 'b' AND s.state <> 'delivered')),
	'paused|the test', 'status() says what its events wait for');
like(sql("SELECT string_agg(detail, ' ') FROM outbox.doctor() WHERE detail LIKE '%t.b%'"), qr/^Topic "t.b" of route "r" was paused by \w+: the test$/, 'and doctor(), in one row');
is(sql("SELECT state, workers FROM outbox.destination WHERE server = 'r'"), 'closed|1', 'its destination takes events');

# --- another number of lanes ---
sql(q(SELECT outbox.alter_route('r', lanes => 3)));
emit(500);
ok(wait_until(sub { $redis->xlen('t.a') == $emitted }, 60), 'the other topic flows as before');
ok(wait_for_value($node, 'SELECT lanes, lanes_wanted, lanes_begun IS NULL FROM outbox.route', '1|3|t'), 'the lanes wait for the topic');
emit(10);
ok(wait_until(sub { $redis->xlen('t.a') == $emitted }, 60), 'with all lanes at work');
like(sql("SELECT string_agg(detail || hint, ' ') FROM outbox.doctor() WHERE detail LIKE '%from 1 to 3 lanes%'"), qr/waits for the topics/, 'doctor() says so');
sql(q(SELECT outbox.resume('r', topic => 't.b')));
ok(wait_for_value($node, 'SELECT lanes, lanes_wanted FROM outbox.route', '3|', 60), 'it ends when the topic is back');
emit(500);
ok(wait_idle($node), 'all is delivered');
is(sql('SELECT count(*) FROM outbox_internal.side_lane'), '0', 'no topic is away any more');
foreach my $topic (qw(t.a t.b))
{
	my (%seen, %last, $overtaken);
	foreach my $entry (@{ $redis->entries($topic) })
	{
		$seen{ $entry->{id} }++;
		$overtaken++ if ($last{ $entry->{key} } // 0) > $entry->{created_at};
		$last{ $entry->{key} } = $entry->{created_at};
	}
	is(scalar(keys %seen), $emitted, "$topic: each event is there");
	is(scalar(grep { $_ > 1 } values %seen), 0, "$topic: none twice");
	is($overtaken // 0, 0, "$topic: none overtook one of its key");
}

# --- a dump with all of it ---
sql(q(SELECT outbox.pause('r', topic => 't.b', reason => 'still'), outbox.pause('r', aggregate_type => 'a', aggregate_id => '1', reason => 'a key')));
ok(wait_for_value($node, 'SELECT count(*) > 0 FROM outbox_internal.side_topic', 't'), 'the topic leaves again');
emit(40);
sql(q(SELECT outbox.emit('a', 'later', 'e', '{}', deliver_at => now() + interval '1 day')));
ok(wait_for_value($node, "SELECT string_agg(state || ' ' || n, ',' ORDER BY state) FROM (SELECT state, count(*) n FROM outbox_internal.parked GROUP BY 1) s",
	'blocked 2,scheduled 1'), 'some events are parked');
ok(wait_for_value($node, 'SELECT sum(pending) FROM outbox.lag WHERE side IS NULL', '0', 20), 'the rest is delivered');
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('postgres') ], 'the database is dumped');
$node->safe_psql('template1', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('restored') ], 'and restored');
my ($a, $b) = ($redis->xlen('t.a'), $redis->xlen('t.b'));
is($node->safe_psql('restored', 'SELECT (SELECT count(*) FROM outbox_internal.parked), (SELECT count(*) FROM outbox.pause), count(*) > 0 FROM outbox.audit'),
	'3|2|t', 'with what is parked, paused, and done by people');
sleep 2; # in which a worker would have come and begun to send
is($redis->xlen('t.a') + $redis->xlen('t.b'), $a + $b, 'it is silent');
is($node->safe_psql('restored', q(SELECT outbox.pause('r', topic => 'another', reason => 'any'), outbox.resume('r', topic => 'another'))),
	't|t', 'and takes new pauses beside the old ones');
$node->safe_psql('restored', 'SET outbox.allow_loss = on; DELETE FROM outbox_internal.foreign_event');
$node->safe_psql('restored', 'SELECT outbox.adopt()');
$node->safe_psql('restored', q(SELECT outbox.resume('r', topic => 't.b'), outbox.resume('r', aggregate_type => 'a', aggregate_id => '1')));
is($node->safe_psql('restored', "SELECT outbox.wait_until_idle('60 s')"), 't', 'an adopted copy works');
is($redis->xlen('t.a'), $a + 2, 'and sends what came parked');
is($node->safe_psql('restored', 'SELECT state FROM outbox_internal.parked'), 'scheduled', 'when it is due');
cmp_ok($node->safe_psql('restored', q(SELECT outbox.create_route('new', server => 'r'))), '>', 1, 'and new routes');

no_server_crashed($node);
done_testing();
