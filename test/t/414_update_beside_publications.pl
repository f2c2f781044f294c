# A database with version 0.1 whose tables a publication publishes (FOR ALL TABLES includes them): the update, which changes
# rows of tables that have no key, gets through.
# matrix: R26
use strict;
use warnings;

use Outbox::Catalog qw(catalog);
use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => stage_with('outbox--0.1.sql') . "\nwal_level = logical\n");
$node->safe_psql('postgres', 'CREATE DATABASE fresh');
$node->safe_psql('fresh', 'CREATE EXTENSION outbox');
my %fresh = map { $_ => 1 } catalog($node, 'fresh');

# With rows that the update changes, in a day's table: a lane's positions under two runs of a Redis.
$node->safe_psql('postgres', q{CREATE EXTENSION outbox VERSION '0.1'; CREATE PUBLICATION everything FOR ALL TABLES;
	SELECT outbox.emit('order', i, 'created', '{}') FROM generate_series(1, 3) i;
	SET outbox.allow_loss = on;
	DO $$
	DECLARE
	  day timestamptz := date_trunc('day', now(), 'UTC');
	BEGIN
	  EXECUTE format('CREATE TABLE outbox.progress_%s PARTITION OF outbox.progress FOR VALUES FROM (%L) TO (%L)',
	    to_char(day AT TIME ZONE 'UTC', 'YYYYMMDD'), day, day + interval '1 day');
	  INSERT INTO outbox.progress (at, route_id, lane, window_from, run, places)
	  SELECT day + n * interval '1 ms', 1, 0, pg_current_snapshot(), 'run ' || n, format('{"t": ["1-1", "%s-1"]}', n)::jsonb FROM generate_series(1, 2) n;
	END $$;
	INSERT INTO outbox.server_run (server, run, survived, resend) VALUES ('a', 'run 1', '{}', false), ('b', 'run 1', '{}', false)});
like(($node->psql('postgres', 'UPDATE outbox.progress SET run = run'))[2], qr/does not have a replica identity/,
	'a table without a key is published');
my ($code, $out, $err) = $node->psql('postgres', 'ALTER EXTENSION outbox UPDATE');
is($code, 0, 'the update gets through') or diag($err);
is($node->safe_psql('postgres', 'SELECT array_to_string(acknowledged, $$-$$) FROM outbox_internal.progress WHERE route_id = 1 ORDER BY at'), "1-1\n2-1", 'with what it had to change');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.server_run'), 1, 'and to remove');
my %updated = map { $_ => 1 } catalog($node, 'postgres');
is_deeply([ (map { "- $_" } grep { !$updated{$_} } sort keys %fresh), (map { "+ $_" } grep { !$fresh{$_} } sort keys %updated) ], [], 'updated is as fresh');
no_server_crashed($node);
done_testing();
