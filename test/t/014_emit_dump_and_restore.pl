# A dump of a database that uses the extension restores without an error, stopping at the first; its events do not get
# into the new log (their transaction ids mean nothing there) but are kept in outbox_internal.foreign_event; emitting goes on.
# matrix: C5 C10
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
$node->safe_psql('postgres', q{
	SELECT outbox.emit('order', i, 'order.created', jsonb_build_object('i', i), '{"a": "b"}') FROM generate_series(1, 50) i;
	SELECT outbox.emit_tombstone('order', 1, 'order.deleted');
	SELECT outbox.emit('order', 1, 'order.reminder', '{}', deliver_at => '2030-01-01 00:00:00+00');
	CREATE TABLE orders (id int PRIMARY KEY);
	CREATE TRIGGER events AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'id');
	CREATE VIEW mine AS SELECT * FROM outbox.event;
});
foreach my $format ('plain', 'custom')
{
	my $file = $node->basedir . "/dump.$format";
	my $database = "restored_$format";
	$node->command_ok([ 'pg_dump', '-F', $format, '-f', $file, 'postgres' ], "$format dump");
	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0");
	$node->command_ok($format eq 'plain'
		? [ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $file, $database ]
		: [ 'pg_restore', '--exit-on-error', '-j', 2, '-d', $database, $file ], "$format restore without an error");
	is($node->safe_psql($database, 'SELECT count(*) FROM outbox_internal.log'), '0', 'no event of the other database in the log');
	is($node->safe_psql($database, q{SELECT count(*), count(payload), count(headers), min(deliver_at) = '2030-01-01 00:00:00+00', count(deliver_at) FROM outbox_internal.foreign_event}),
		'52|51|50|t|1', 'all of them are kept');
	$node->safe_psql($database, 'INSERT INTO orders VALUES (1)');
	is($node->safe_psql($database, 'SELECT event_type FROM outbox_internal.log'), 'order.created', 'the trigger emits in the copy');
}
no_server_crashed($node);
done_testing();
