# A publication FOR ALL TABLES takes the tables of outbox along. On the publisher everything goes on working. The
# subscriber, which has an outbox and an inbox of its own, keeps them: replicated routes, positions, identities, marks and rights do
# not get in, nor stop the subscription, replicated events are kept apart and wake no worker, and what it emits itself is published, once.
# matrix: C10 C12
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $redis = Outbox::Redis->start;
my %node = map { $_ => new_node(name => $_, conf => "wal_level = logical\nmax_wal_senders = 10\nmax_replication_slots = 10\nmax_worker_processes = 24\n") } qw(publisher subscriber);
foreach my $name (sort keys %node)
{
	redis_route($node{$name}, $redis, 'redis', topic => "'$name'");
	$node{$name}->safe_psql('postgres', q{
		CREATE TABLE orders (id int PRIMARY KEY);
		CREATE TRIGGER events AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'id');
		SELECT outbox.emit('order', 1, 'first', '{}');
		CREATE ROLE consumes;
		SELECT outbox.receive('both', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), outbox.receive('both', 'topic', 'key', 1700000000000002), outbox.receive_next('both', 'stream', 7);});
	ok(wait_idle($node{$name}), "$name has an outbox that works");
	ok(wait_for_value($node{$name}, q{SELECT count(*) >= 3 FROM pg_inherits WHERE inhparent = 'outbox_internal.log'::regclass}, 't'), 'and day tables');
}
my ($publisher, $subscriber) = @node{qw(publisher subscriber)};
$publisher->safe_psql('postgres', q{SELECT outbox.grant_receive('consumes')});
$subscriber->safe_psql('postgres', q{SELECT outbox.receive('both', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12')});
is($subscriber->safe_psql('postgres', q{SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_class c WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
	AND c.relkind IN ('r', 'p') AND c.relname !~ '^log_\d{8}$' AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = 'ignore_replicated' AND t.tgenabled = 'R')}),
	'foreign_event log log_spare', 'only the log takes in what a subscription brings');

# What is the subscriber's own: must not change, whatever the publisher does.
sub own
{
	return join "\n", map { $subscriber->safe_psql('postgres', $_) } (
		'SELECT * FROM outbox_internal.identity', 'SELECT * FROM outbox_internal.origin', 'SELECT * FROM outbox.route', 'SELECT route_id, lane, window_from, done_to FROM outbox_internal.lane',
		'SELECT count(*) FROM outbox_internal.parked', 'SELECT count(*) FROM outbox.pause', 'SELECT count(*) FROM outbox.audit',
		'SELECT * FROM outbox.received ORDER BY 1, 2, 3', 'SELECT * FROM outbox_internal.inbox_kept', 'SELECT role FROM outbox_internal.receive_right',
		'SELECT count(*) FROM outbox_internal.side_lane', q{SELECT count(*) FROM outbox_internal.progress WHERE at > now() + interval '1 hour'});
}
my $own = own();
my $log = $subscriber->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.log');

$publisher->safe_psql('postgres', 'CREATE PUBLICATION everything FOR ALL TABLES');
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION everything CONNECTION " . sql_literal($publisher->connstr('postgres')) . " PUBLICATION everything");
ok(wait_for_value($subscriber, "SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')", 't'), 'all tables are copied');
is(own(), $own, 'the copy brought nothing into the tables of the outbox');

# --- everything that updates and deletes goes on under the publication ---
$publisher->safe_psql('postgres', $_) foreach (
	q{SELECT count(outbox.emit('order', i, 'second', '{}')) FROM generate_series(1, 200) i},
	q{INSERT INTO orders SELECT generate_series(1, 20)},
	q{SELECT outbox.pause('redis', aggregate_type => 'order', aggregate_id => '5', reason => 'a row to delete')},
	q{SELECT outbox.resume('redis', aggregate_type => 'order', aggregate_id => '5')},
	q{SELECT outbox.emit('order', 7, 'due', '{}', deliver_at => now() + interval '1 second')},
	q{SELECT outbox.alter_route('redis', lanes => 3)});
ok(wait_for_value($publisher, q{SELECT lanes || coalesce(' to ' || lanes_wanted, '') FROM outbox.route}, '3'), 'routes of the publisher change');
$publisher->safe_psql('postgres', $_) foreach (
	q{INSERT INTO outbox_internal.log (created_at, id, xid, aggregate_type, aggregate_id, event_type, payload)
		VALUES (now(), gen_random_uuid(), '3', 'order', '8', 'by hand', '{}')},
	q{SELECT outbox.adopt()},
	q{CALL outbox.seek('redis', 'infinity', reason => 'to write an audit row', dry_run => false)},
	q{DELETE FROM outbox.audit WHERE at < now() - interval '1 year'},
	q{SELECT outbox.emit('order', 9, 'third', '{}')},
	q{SELECT outbox.receive('both', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12'), outbox.receive('published', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13'), outbox.receive('both', 'topic', 'key', 1700000000000003),
		outbox.receive_next('both', 'stream', 8), outbox.receive_next('published', 'stream', 1)},
	q{SELECT outbox.forget_received('both', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')},
	q{UPDATE outbox_internal.inbox_kept SET kept_from = kept_from + 1});
is($publisher->safe_psql('postgres', q{SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_class c WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
	AND c.relkind IN ('r', 'p') AND c.relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)}),
	'', 'no table is without a replica identity, no day table either');
ok(wait_idle($publisher), 'the publisher delivers under a publication FOR ALL TABLES');
ok(wait_for_value($publisher, q{SELECT count(*) FROM outbox_internal.parked}, '0'), 'its parked events leave');
like($publisher->safe_psql('postgres', q{SELECT detail FROM outbox.doctor() WHERE "check" = 'publications' AND status = 'warning'}), qr/by everything/,
	'doctor() says that the log is published');
$publisher->wait_for_catchup('everything');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM orders'), '20', 'rows are replicated');
is(own(), $own, 'and none of the outbox');
is($subscriber->safe_psql('postgres', q{SELECT outbox.receive('both', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), outbox.receive('published', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13')}), 'f|t', 'nor of the inbox');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.log'), $log, 'no event of the publisher is in the log');
is($subscriber->safe_psql('postgres', q{SELECT count(*) FROM outbox_internal.foreign_event WHERE event_type = 'second'}), '200', 'they are kept apart');
is($redis->xlen('subscriber'), 1, 'nothing is published from them');

# --- the subscriber's own outbox ---
$subscriber->safe_psql('postgres', q{SELECT outbox.emit('order', 1, 'own', '{}')});
ok(wait_idle($subscriber), 'the subscriber publishes what is its own');
is(join(' ', map { $_->{type} } @{ $redis->entries('subscriber') }), 'first own', 'and that alone');
# Triggers of users obey ENABLE ALWAYS: a subscriber may turn what it is told into events of its own.
$subscriber->safe_psql('postgres', 'ALTER TABLE orders ENABLE ALWAYS TRIGGER events');
$publisher->safe_psql('postgres', 'INSERT INTO orders VALUES (21)');
ok(wait_until(sub { $redis->xlen('subscriber') == 3 }), 'a trigger ENABLE ALWAYS emits on the subscriber');
# A restore under session_replication_role = replica is no subscription: it gets its rows.
is($subscriber->safe_psql('postgres', q{SET session_replication_role = replica;
	INSERT INTO outbox.audit (who, action) VALUES ('a restore', 'x'); SELECT count(*) FROM outbox.audit WHERE who = 'a restore'}), '1', 'a restore brings its rows');
is($subscriber->safe_psql('postgres', q{SELECT string_agg("check" || ': ' || detail, '; ') FROM outbox.doctor() WHERE status = 'problem'}), '', 'doctor() finds no problem on the subscriber');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION everything');
no_server_crashed($_, 'no process of ' . $_->name . ' crashed') foreach $publisher, $subscriber;
done_testing();
