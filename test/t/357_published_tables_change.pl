# A publication FOR ALL TABLES stands in the way of nothing that outbox updates, deletes or empties: keys of dedupe_key are freed,
# forget() corrects its notes, rows that came past the guard of the log are moved, the clock is put back, a restored dump is
# adopted. What is emptied as a whole on the publisher's side stays with a subscriber, whose positions they are.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "wal_level = logical\nmax_wal_senders = 10\nmax_replication_slots = 10\nmax_worker_processes = 32\noutbox.lone_emit = allow\noutbox.workers = 1\n";
my $node = new_node(conf => $conf);
sub sql { my ($query, $database) = @_; return $node->safe_psql($database // 'postgres', $query) }
sub idle { my ($database, $what) = @_; return is(sql(q{SELECT outbox.wait_until_idle('60 s')}, $database), 't', $what) }
sql(q{CREATE SERVER nul FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'nul')});
sql('CREATE PUBLICATION everything FOR ALL TABLES');

# --- a key is freed ---
my $once = q{SELECT outbox.emit('orders', '7', 'x', '{}', dedupe_key => 'once')};
my $id = sql($once);
is(sql($once), $id, 'a key emits once');
sql("DELETE FROM outbox_internal.$_") foreach qw(emit_key emit_key_spare);
isnt(sql($once), $id, 'and again when its row is deleted');
idle('postgres', 'the route works');

# --- forget(undelivered => true) ---
sql(q{SELECT outbox.pause('r', reason => 'to have something undelivered')});
$id = sql(q{SELECT outbox.emit('orders', '8', 'x', '{}')});
sql(q{SET client_min_messages = error; CALL outbox.forget('orders', '8', undelivered => true, dry_run => false)});
like(sql("SELECT state || ' ' || error_message FROM outbox.status('$id')"), qr/^skipped erased by outbox.forget\(\)/, 'an event is given up');
sql(q{SELECT outbox.resume('r')});

# --- rows past the guard of the log ---
my $day = sql('SELECT tableoid::regclass FROM outbox_internal.log LIMIT 1');
sql(qq{BEGIN; ALTER TABLE $day DISABLE TRIGGER ALL;
	INSERT INTO $day (created_at, id, xid, aggregate_type, aggregate_id, event_type, payload)
		SELECT clock_timestamp(), gen_random_uuid(), x::text::xid8, 'loaded', 'k', 'loaded', '1' FROM generate_series(600, 610, 7) x;
	ALTER TABLE $day ENABLE TRIGGER ALL; COMMIT});
sql('SELECT pg_reload_conf()');
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.foreign_event WHERE aggregate_type = 'loaded'}, '2'), 'the keeper moves them');
sql(q{SET client_min_messages = error; SET outbox.allow_loss = on; DELETE FROM outbox_internal.foreign_event});

# --- a restored dump, in a database of its own and beside a route that works ---
idle('postgres', 'idle');
sql(q{SELECT outbox.pause('r', reason => 'to have a backlog')});
sql(q{SELECT count(outbox.emit('orders', i::text, 'backlog', '{}')) FROM generate_series(1, 5) i});
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('postgres') ], 'it is dumped with a backlog');
foreach my $copy (qw(alone beside))
{
	sql("CREATE DATABASE $copy");
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr($copy) ], "restored into $copy");
	sql(q{SELECT outbox.resume('r')}, $copy);
}
sql(q{SELECT outbox.create_route('own', server => 'nul')}, 'beside');

# A subscriber, with positions of its own, follows them before they are adopted.
my $subscriber = new_node(name => 'subscriber', conf => $conf);
$subscriber->safe_psql('postgres', q{CREATE SERVER nul FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'nul');
	SELECT outbox.emit('orders', '1', 'own', '{}')});
ok(wait_idle($subscriber), 'the subscriber works');
ok(wait_for_value($subscriber, q{SELECT count(*) >= 3 FROM pg_inherits WHERE inhparent = 'outbox_internal.log'::regclass}, 't'), 'and has day tables');
# What it has still to note is noted.
my $rows = value_at_rest($subscriber, 'SELECT count(*) FROM outbox_internal.progress', 30);
cmp_ok($rows, '>', 0, 'it has noted how far it is');
my $own = 'SELECT count(*), max(at), min(at) FROM outbox_internal.progress';
my $positions = $subscriber->safe_psql('postgres', $own);
foreach my $copy (qw(alone beside))
{
	$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION $copy CONNECTION " . sql_literal($node->connstr($copy)) . " PUBLICATION everything");
	ok(wait_for_value($subscriber, "SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')", 't'), "it follows $copy");
	sql('SET client_min_messages = error; SELECT outbox.adopt()', $copy);
	ok(wait_until(sub { sql('SELECT count(*) FROM outbox_internal.adoption', $copy) eq '0' }, 60), "$copy is adopted");
	idle($copy, 'its backlog is delivered');
	$node->wait_for_catchup($copy);
	is($subscriber->safe_psql('postgres', $own), $positions, 'what the subscriber knows of its own positions stays');
	$subscriber->safe_psql('postgres', "DROP SUBSCRIPTION $copy");
	sql("DROP DATABASE $copy", 'template1');
}
no_server_crashed($subscriber);
$subscriber->stop;

# --- a clock that was put back ---
sql(q{SELECT outbox.resume('r')});
idle('postgres', 'idle');
Outbox::Faults::shift_clock(2 * 86_400 * 1_000_000);
$node->restart;
sql(q{SELECT count(outbox.emit('orders', i::text, 'ahead', '{}')) FROM generate_series(1, 5) i});
idle('postgres', 'two days ahead all works');
Outbox::Faults::shift_clock(0);
Outbox::Faults::put('reset.sooner', 9_000_000);
is(sql(q{SELECT outbox.reset_clock(force => true) > interval '1 day'}), 't', 'the clock of events is put back');
sql(q{SELECT outbox.emit('orders', '9', 'again', '{}')});
idle('postgres', 'and all works');
no_server_crashed($node);
done_testing();
