# A database at version 0.1 under the new library, which cannot read how far its events were delivered: what would lose them is
# refused until ALTER EXTENSION ... UPDATE, by whatever command, and outbox.allow_loss lets it through.
# matrix: C7 C19
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => stage_with('outbox--0.1.sql'), extension => 0);
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub said { return ($node->psql('postgres', "BEGIN; $_[0]; ROLLBACK"))[2] }
sql(q(CREATE EXTENSION outbox VERSION '0.1'; CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_log));
is(said('DROP EXTENSION outbox CASCADE') =~ /ERROR/ ? 1 : 0, 0, 'an outbox that nothing was ever in goes without ado');
sql(q(SELECT outbox.emit('order', 1, 'created', '{}')));
is(said('DROP EXTENSION outbox CASCADE') =~ /ERROR/ ? 1 : 0, 0, 'and one that nobody has a route to');
# As the library of 0.1 made routes.
sql(q(WITH r AS (INSERT INTO outbox.route (name, server, topic, lanes, start_snapshot, start_time)
	VALUES ('orders', 'nowhere', 'orders', 1, pg_current_snapshot(), 'infinity') RETURNING id)
	INSERT INTO outbox.lane (route_id, lane, window_from) SELECT id, 0, pg_current_snapshot() FROM r));
sql(q(SELECT outbox.emit('order', i % 5, 'created', jsonb_build_object('n', i)) FROM generate_series(1, 100) i));
sql(q(CREATE ROLE runs_it; ALTER SERVER nowhere OWNER TO runs_it; CREATE ROLE stranger; GRANT USAGE ON SCHEMA outbox TO stranger));
my $day = sql(q(SELECT tableoid::regclass FROM outbox.log LIMIT 1));
isnt($day, '', 'there is a day') or BAIL_OUT('no day');

my @commands = (
	'DELETE FROM outbox.log', "DELETE FROM $day", 'UPDATE outbox.log SET payload = NULL', 'TRUNCATE outbox.log', "TRUNCATE $day",
	'WITH gone AS (DELETE FROM outbox.log RETURNING 1) SELECT count(*) FROM gone',
	'MERGE INTO outbox.log l USING (VALUES (1)) v ON true WHEN MATCHED THEN DELETE',
	'DELETE FROM outbox.route', 'TRUNCATE outbox.route CASCADE', 'DELETE FROM outbox.lane', 'TRUNCATE outbox.lane CASCADE',
	"DROP TABLE $day", "ALTER TABLE outbox.log DETACH PARTITION $day",
	'DROP EXTENSION outbox CASCADE', 'DROP SCHEMA outbox CASCADE', 'DROP OWNED BY runs_it CASCADE');
foreach my $command (@commands)
{
	like(said($command), qr/ERROR:  cannot .* because events may be undelivered\nDETAIL:  The extension has version "0\.1", the library "0\.2".*\nHINT:  ALTER EXTENSION outbox UPDATE/, "refused: $command");
	my $allowed = said("SET LOCAL outbox.allow_loss = on; $command");
	like($allowed, qr/WARNING:  undelivered events are lost/, 'let through, and told');
	unlike($allowed, qr/ERROR/, 'when they may be lost');
}
foreach my $command ('DROP SERVER nowhere', 'DROP SERVER nowhere CASCADE')
{
	like(said($command), qr/ERROR:  cannot drop server nowhere because routes of outbox use it\nDETAIL:  Routes: 'orders'\.\nHINT:  ALTER EXTENSION outbox UPDATE, then use outbox.drop_route/, "refused: $command");
}
like(said(q(SELECT outbox.drop_route('orders'))), qr/ERROR:  the extension of this database is not of the library's version\nDETAIL:.*\nHINT:  ALTER EXTENSION outbox UPDATE/, 'drop_route() says so, too');
is(sql(q(BEGIN; SET LOCAL outbox.allow_loss = on; DELETE FROM outbox.log; SELECT string_agg(DISTINCT action || ' ' || regexp_replace(detail->>'command', '[0-9]{8}', 'DAY'), ', ') FROM outbox.audit; ROLLBACK)),
	'allow_loss delete from outbox.log_DAY', 'outbox.audit keeps it');
like(said('SET ROLE stranger; DELETE FROM outbox.log'), qr/permission denied/, 'who has no right is told that');

# Nothing else is in anybody's way.
foreach my $command ('EXPLAIN DELETE FROM outbox.log', 'DELETE FROM outbox.audit', "UPDATE outbox.route SET max_attempts = 3", q(SELECT outbox.emit('order', 1, 'created', '{}')),
	'CREATE TABLE mine (i int); INSERT INTO mine VALUES (1); UPDATE mine SET i = 2; DELETE FROM mine; TRUNCATE mine; DROP TABLE mine')
{
	is(said($command), '', "not asked about: $command");
}
sql(q(SELECT outbox.pause(route => 'orders', reason => 'counted')));
sql('ALTER EXTENSION outbox UPDATE');
is(sql('SELECT count(*) FROM outbox_internal.log'), '101', 'all events are there');
like(said('DROP EXTENSION outbox CASCADE'), qr/ERROR:  cannot drop extension outbox because it holds undelivered events\nDETAIL:  Route "orders": 100 pending/, 'and are counted once it is updated');
no_server_crashed($node);
done_testing();
