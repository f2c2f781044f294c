# ALTER EXTENSION outbox UPDATE from 0.1 moves and renames what is the extension's, and no function, table or view that
# somebody made in schema outbox, whatever its name.
use strict;
use warnings;

use Outbox::Catalog qw(catalog);
use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => stage_with('outbox--0.1.sql'));
sub sql { my ($database, $query) = @_; return $node->safe_psql($database, $query) }

sql('postgres', "CREATE DATABASE $_") foreach qw(fresh used);
sql('fresh', 'CREATE EXTENSION outbox');
sql('used', q{CREATE EXTENSION outbox VERSION '0.1'; SELECT outbox.emit('order', 1, 'created', '{}');
	CREATE FUNCTION outbox._note() RETURNS int LANGUAGE sql RETURN 1;
	CREATE FUNCTION outbox.my_validator(text) RETURNS boolean LANGUAGE sql RETURN true;
	CREATE TABLE outbox._parked (a int); COMMENT ON TABLE outbox._parked IS 'beside outbox.parked, of our own';
	CREATE TABLE outbox.adopted (a int) PARTITION BY RANGE (a); CREATE TABLE outbox.adopted_1 PARTITION OF outbox.adopted FOR VALUES FROM (0) TO (1);
	CREATE VIEW outbox._open AS SELECT 1 AS one;
	CREATE FUNCTION outbox.emit_mine() RETURNS int LANGUAGE sql RETURN 1;
	CREATE ROLE caller; GRANT EXECUTE ON FUNCTION outbox.emit_mine() TO caller; GRANT SELECT ON outbox._parked TO PUBLIC});
my $theirs = q{SELECT string_agg(name, ' ' ORDER BY name COLLATE "C") FROM (SELECT c.oid::regclass::text AS name FROM pg_class c WHERE c.relname ~ '^_?(parked|adopted(_1)?|open)$'
	  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e')
	UNION ALL SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.proname IN ('_note', 'note', 'my_validator', 'emit_mine')) n};
my $before = sql('used', $theirs);
my $objects = 'outbox._note() outbox._open outbox._parked outbox.adopted outbox.adopted_1 outbox.emit_mine() outbox.my_validator(text)';
is($before, $objects, 'there are such objects');
my ($code, $out, $err) = $node->psql('used', 'ALTER EXTENSION outbox UPDATE');
is($code, 0, 'it is updated') or diag($err);
is(sql('used', $theirs), $objects, 'and they are where they were');
is(sql('used', q{SELECT obj_description(to_regclass('outbox._parked'), 'pg_class')}), 'beside outbox.parked, of our own', 'what is said of them, too');
is(sql('used', q{SELECT has_function_privilege('caller', 'outbox._note()', 'EXECUTE'), has_table_privilege('caller', 'outbox._parked', 'SELECT')}), 't|t',
	'and what PUBLIC may with them');
is(sql('used', q{SELECT count(*) FROM outbox_internal.emit_right}), '0', 'who may call a function of such a name may not emit by that');
is(sql('used', q{SELECT count(*) FROM pg_partition_tree('outbox_internal.log') t JOIN pg_class c ON c.oid = t.relid WHERE c.relnamespace <> 'outbox_internal'::regnamespace}), '0',
	'day tables have moved');
sql('used', q{DROP TABLE outbox._parked, outbox.adopted; DROP VIEW outbox._open; DROP FUNCTION outbox._note(), outbox.my_validator(text), outbox.emit_mine()});
my %fresh = map { $_ => 1 } catalog($node, 'fresh');
my %updated = map { $_ => 1 } catalog($node, 'used');
is_deeply([ (map { "- $_" } grep { !$updated{$_} } sort keys %fresh), (map { "+ $_" } grep { !$fresh{$_} } sort keys %updated) ], [], 'and all else is as fresh');
done_testing();
