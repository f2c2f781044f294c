# pg_restore --disable-triggers (and other sessions that switch triggers off) gets rows past the guard of the log, whose
# transaction ids are another server's. doctor() says so, the keeper puts them where they belong and has the guard on
# again, and nobody's emit() waits for that. They are never published when this server's transaction ids come by, and
# what emit() wrote stays.
# matrix: C10 C18 R15
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('events'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
# Own rows of every sort: one transaction, several of one, subtransactions that were kept and that were not.
sql(q{SELECT outbox.emit('own', 1, 'plain', '{}')});
sql(q{SELECT outbox.emit_many('own', '{1,2,3}', 'many', '{1,2,3}')});
sql(q{BEGIN; SELECT outbox.emit('own', 1, 'top', '{}'); SAVEPOINT a; SELECT outbox.emit('own', 1, 'sub', '{}'), outbox.emit('own', 1, 'sub', '{}');
	SAVEPOINT b; SELECT outbox.emit('own', 1, 'subsub', '{}'); RELEASE b; RELEASE a; SAVEPOINT c; SELECT outbox.emit('own', 1, 'gone', '{}'); ROLLBACK TO c; COMMIT});
sql(q{DO $$ BEGIN BEGIN PERFORM outbox.emit('own', 1, 'caught', '{}'); EXCEPTION WHEN OTHERS THEN NULL; END; END $$});
ok(wait_idle($node), 'own events are delivered');
my $own = sql('SELECT count(*) FROM outbox_internal.log');
is($own, 9, 'all of them');
my $day = sql('SELECT DISTINCT tableoid::regclass FROM outbox_internal.log');
my $wrong = q{SELECT string_agg(DISTINCT tgname || ' ' || tgenabled::text, ', ') FROM pg_trigger WHERE ((tgname = 'log_guard' AND tgenabled <> 'A') OR (tgname = 'ignore_replicated' AND tgenabled <> 'R'))};

# Loads rows the way pg_restore does: xids below, among and above this server's, one of them the loader's own by chance.
my $round = 0;
sub load
{
	my ($rows) = @_;
	$round++;
	return sql(qq{BEGIN;
		ALTER TABLE $day DISABLE TRIGGER ALL; ALTER TABLE outbox_internal.parked DISABLE TRIGGER ALL;
		INSERT INTO $day (created_at, id, xid, aggregate_type, aggregate_id, event_type, payload)
			SELECT clock_timestamp(), gen_random_uuid(), x::text::xid8, 'loaded', 'k', 'loaded $round', '1' FROM ($rows) r (x);
		ALTER TABLE $day ENABLE TRIGGER ALL; ALTER TABLE outbox_internal.parked ENABLE TRIGGER ALL;
		SELECT status || ' ' || detail FROM outbox.doctor() WHERE "check" = 'guards'; COMMIT});
}
# None that comes by before the keeper does: such a row is published, and no promise covers it. The loader's own number has
# come by when it commits, so the lane waits.
sql(q{SELECT outbox.pause('redis', reason => 'the keeper goes first')});
my $said = load(q{WITH now AS (SELECT pg_current_xact_id()::text::bigint AS xid) SELECT x FROM now, generate_series(600, xid - 7, 7) x
	UNION SELECT x FROM now, generate_series(xid + 40, xid + 100, 7) x UNION SELECT xid FROM now});
like($said, qr/^problem Trigger log_guard of \S+ was switched off or changed/, 'doctor() says so');
# A session has just emitted and not committed: it blocks no other, and none blocks it.
my $writer = $node->background_psql('postgres');
$writer->query_safe(q{BEGIN; SELECT outbox.emit('own', 1, 'open', '{}')});
sql('SELECT pg_reload_conf()');
ok(wait_for_value($node, $wrong, ''), 'the keeper has the guards on again');
$writer->query_safe('COMMIT');
$writer->quit;
is(sql(q{SELECT count(*) FROM outbox_internal.log WHERE aggregate_type = 'loaded'}), '0', 'no row that came past them is in the log');
sql(q{SELECT outbox.resume('redis')});
cmp_ok(sql(q{SELECT count(*) FROM outbox_internal.foreign_event WHERE event_type = 'loaded 1' AND xid IS NOT NULL}), '>', 20, 'they are kept apart');
is(sql(q{SELECT count(*) FROM outbox_internal.log WHERE aggregate_type = 'own'}), $own + 1, 'what emit() wrote is all there');
# One alone whose transaction id is still to come.
load(q{SELECT pg_current_xact_id()::text::bigint + 40});
sql('SELECT pg_reload_conf()');
ok(wait_for_value($node, $wrong, ''), 'again');
is(sql(q{SELECT count(*) FROM outbox_internal.foreign_event WHERE event_type = 'loaded 2'}), '1', 'one of the future is found, too');
sql('SELECT pg_current_xact_id()') foreach 1 .. 100;
sql(q{SELECT outbox.emit('own', 1, 'last', '{}')});
ok(wait_idle($node), 'the transaction ids have come by');
is(join(' ', grep { !/^(?:plain|many|top|sub|subsub|caught|open|last)$/ } map { $_->{type} } @{ $redis->entries('events') }), '', 'and nothing of the kind was published');
is($redis->xlen('events'), $own + 2, 'but all that was emitted, once');
# Another session is changing the day: it is left for the next time.
load(q{SELECT pg_current_xact_id()::text::bigint + 100000});
my $holder = $node->background_psql('postgres');
$holder->query_safe("BEGIN; LOCK TABLE $day IN SHARE UPDATE EXCLUSIVE MODE");
sql('SELECT pg_reload_conf()');
ok(wait_for_value($node, "$wrong AND tgrelid = 'outbox_internal.parked'::regclass", ''), 'other tables are mended meanwhile');
is(sql("$wrong AND tgrelid = '$day'::regclass"), 'log_guard O', 'a day that another session is changing is not');
$holder->query_safe('COMMIT');
$holder->quit;
sql('SELECT pg_reload_conf()');
ok(wait_for_value($node, $wrong, ''), 'but afterwards');
is(sql(q{SELECT status FROM outbox.doctor() WHERE "check" = 'guards'}), 'ok', 'doctor() is content');
# By hand it comes to the right place now.
sql(qq{INSERT INTO $day (created_at, id, xid, aggregate_type, event_type, payload) VALUES (clock_timestamp(), gen_random_uuid(), '5', 'loaded', 'by hand', '1')});
is(sql(q{SELECT count(*) FROM outbox_internal.log WHERE aggregate_type = 'loaded'}), '0', 'the guard guards');
no_server_crashed($node);
done_testing();
