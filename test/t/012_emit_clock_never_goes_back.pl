# created_at is strictly increasing and unique over all sessions, an event emitted after another one's commit is later,
# and a restart turns nothing back, even of a clock that was pushed days ahead (whose day table is made at first use).
# matrix: B13
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();

# Six sessions append to shared keys, each commit under the key's row lock: commit order is known by the counter.
$node->safe_psql('postgres', q{
	CREATE TABLE keys (id int PRIMARY KEY, n int NOT NULL DEFAULT 0);
	INSERT INTO keys SELECT generate_series(1, 5);
});
my $script = $node->basedir . '/emit.sql';
append_to_file($script, q{
\set k random(1, 5)
BEGIN;
UPDATE keys SET n = n + 1 WHERE id = :k RETURNING n \gset
SELECT outbox.emit('counter', :k, 'counted', jsonb_build_object('n', :n::int));
SELECT outbox.emit_many('counter', ARRAY[:k, :k]::text[], 'counted many', ARRAY[:n, :n]::text[]::jsonb[]);
COMMIT;
});
$node->command_ok([ 'pgbench', '-n', '-c', 6, '-j', 2, '-t', 250, '-f', $script, 'postgres' ], 'six sessions emit');
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT created_at), count(DISTINCT id) FROM outbox_internal.log'),
	'4500|4500|4500', 'readings and ids are unique');
is($node->safe_psql('postgres', q{
	SELECT count(*) FROM (
		SELECT n, lag(n) OVER (PARTITION BY aggregate_id ORDER BY created_at) AS before
		FROM (SELECT *, CASE event_type WHEN 'counted' THEN (convert_from(payload, 'UTF8')::jsonb->>'n')::int
		                ELSE convert_from(payload, 'UTF8')::int END AS n FROM outbox_internal.log) l) o
	WHERE n < before}), '0', 'per key, created_at follows the order of commits');

# Push the clock three days ahead, as a wrong system clock would have.
$node->safe_psql('postgres', q{SELECT setval('outbox_internal.clock_ceiling', (extract(epoch FROM now() + '3 days') * 1000000)::bigint)});
$node->restart;
is($node->safe_psql('postgres', q{
	SELECT outbox.emit('order', 1, 'ahead', '{}') IS NOT NULL;
	SELECT created_at > now() + '2 days 23 hours', tableoid::regclass::text = 'outbox_internal.log_' || to_char(created_at AT TIME ZONE 'UTC', 'YYYYMMDD')
	FROM outbox_internal.log WHERE event_type = 'ahead'}),
	"t\nt|t", 'the clock starts above the ceiling, in the day table that belongs to it');
$node->safe_psql('postgres', q{SELECT outbox.emit('order', 1, 'ahead too', '{}')});
$node->stop('immediate');
$node->start;
$node->safe_psql('postgres', q{SELECT outbox.emit('order', 1, 'after a crash', '{}')});
is($node->safe_psql('postgres', q{SELECT string_agg(event_type, ',' ORDER BY created_at) FROM outbox_internal.log WHERE aggregate_type = 'order'}),
	'ahead,ahead too,after a crash', 'also after a crash');
no_server_crashed($node);
done_testing();
