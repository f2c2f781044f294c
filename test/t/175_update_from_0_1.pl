# A database with version 0.1 of the extension, in use, under the new library: nothing is published before ALTER EXTENSION
# ... UPDATE, everything after it, in order and once; and its catalogs are then those of a fresh install.
# matrix: C7 R26 R63
use strict;
use warnings;

use Outbox::Catalog qw(catalog);
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(conf => stage_with('outbox--0.1.sql'));

# --- nothing in it yet ---
$node->safe_psql('postgres', 'CREATE DATABASE fresh');
$node->safe_psql('postgres', 'CREATE DATABASE bare');
$node->safe_psql('fresh', 'CREATE EXTENSION outbox');
$node->safe_psql('bare', "CREATE EXTENSION outbox VERSION '0.1'");
my $version = $node->safe_psql('fresh', "SELECT extversion FROM pg_extension WHERE extname = 'outbox'");
isnt($version, '0.1', 'the version of today is another');
my @fresh = catalog($node, 'fresh');
cmp_ok(scalar(@fresh), '>', 500, 'a catalog is compared that is not empty');
$node->safe_psql('bare', 'ALTER EXTENSION outbox UPDATE');

sub same_as_fresh
{
	my ($database) = @_;
	my %fresh = map { $_ => 1 } @fresh;
	my %updated = map { $_ => 1 } catalog($node, $database);
	my @missing = grep { !$updated{$_} } sort keys %fresh;
	my @extra = grep { !$fresh{$_} } sort keys %updated;
	is(scalar(@missing) + scalar(@extra), 0, "$database: updated is as fresh") or diag(map { "$_\n" } (map { "- $_" } @missing), (map { "+ $_" } @extra));
	return;
}
same_as_fresh('bare');
foreach my $database (qw(fresh bare))
{
	is($node->safe_psql($database, q{SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_class c WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
		AND c.relkind IN ('r', 'p') AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = 'ignore_replicated' AND t.tgenabled = 'R')}),
		'foreign_event log log_spare', "$database: of a subscription nothing gets into other tables");
}

# --- what pg_monitor was granted beyond what the extension grants it: a dump has it ---
$node->safe_psql('postgres', 'CREATE DATABASE monitored');
$node->safe_psql('monitored', q{CREATE EXTENSION outbox VERSION '0.1'; SELECT outbox.grant_emit('pg_monitor'), outbox.grant_operate('pg_monitor')});
$node->safe_psql('monitored', 'ALTER EXTENSION outbox UPDATE');
my ($monitored) = run_command([ 'pg_dump', '--schema-only', '-d', $node->connstr('monitored') ]);
like($monitored, qr/^GRANT ALL ON (?:FUNCTION|PROCEDURE) outbox\.$_\(.* TO pg_monitor;$/m, "a dump has what pg_monitor was granted: $_") foreach qw(emit emit_many pause redrive);
like($monitored, qr/^GRANT [A-Z,]*INSERT[A-Z,]* ON TABLE outbox\.event TO pg_monitor;$/m, 'the view, too');
unlike($monitored, qr/^GRANT .* outbox\.(?:doctor|metrics|lag|worker|status)\b.* TO pg_monitor;$/m, 'and not what the extension grants it by itself');
my $of_monitor = q{SELECT pg_describe_object(i.classoid, i.objoid, i.objsubid) || ' ' || x.privilege_type
	FROM pg_init_privs i, aclexplode(i.initprivs) x, pg_depend d WHERE x.grantee = 'pg_monitor'::regrole
	AND d.classid = i.classoid AND d.objid = i.objoid AND d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'outbox') ORDER BY 1};
is($node->safe_psql('monitored', $of_monitor), $node->safe_psql('fresh', $of_monitor), 'which is what a fresh one grants');

# --- with default privileges, which reach nobody: on what is new in the step, and what was there stays as it was ---
$node->safe_psql('postgres', 'CREATE DATABASE privileged');
$node->safe_psql('privileged', q{CREATE EXTENSION outbox VERSION '0.1'; CREATE ROLE by_default; CREATE ROLE by_hand;
	GRANT USAGE ON SCHEMA outbox TO by_default, by_hand; GRANT SELECT ON outbox.route TO by_default, by_hand;
	GRANT EXECUTE ON FUNCTION outbox.wait_until_idle(interval) TO by_hand;
	CREATE ROLE sends_again; GRANT EXECUTE ON PROCEDURE outbox.replay TO sends_again WITH GRANT OPTION;
	CREATE ROLE makes_routes; GRANT EXECUTE ON FUNCTION
	  outbox.create_route(text, text, text[], text[], text, text, integer, text, jsonb, text, integer, interval, interval),
	  outbox.alter_route(text, text, text[], text[], text, text, integer, jsonb, text, integer, interval, interval) TO makes_routes;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO by_default, by_hand, PUBLIC, pg_monitor; ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO by_default, PUBLIC;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO by_default, by_hand, pg_monitor; ALTER DEFAULT PRIVILEGES GRANT ALL ON TYPES TO by_default});
my $rights = q{SELECT string_agg(pg_get_userbyid(grantee) || ' ' || privilege_type || ' ' || object, ', ' ORDER BY 1) FROM (
	SELECT c.oid::regclass::text AS object, x.* FROM pg_class c, aclexplode(c.relacl) x WHERE c.relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('outbox', 'outbox_internal'))
	UNION ALL SELECT p.oid::regprocedure::text, x.* FROM pg_proc p, aclexplode(p.proacl) x WHERE p.pronamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('outbox', 'outbox_internal'))
	UNION ALL SELECT t.oid::regtype::text, x.* FROM pg_type t, aclexplode(t.typacl) x WHERE t.typnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('outbox', 'outbox_internal')) AND t.typrelid = 0 AND t.typelem = 0
	UNION ALL SELECT n.nspname, x.* FROM pg_namespace n, aclexplode(n.nspacl) x WHERE n.nspname = 'outbox') a
	WHERE pg_get_userbyid(grantee) IN ('by_default', 'by_hand')};
my $before = $node->safe_psql('privileged', $rights);
# In a subtransaction, as a migration tool may do it.
$node->safe_psql('privileged', 'BEGIN; SAVEPOINT s; ALTER EXTENSION outbox UPDATE; RELEASE s; COMMIT');
is($node->safe_psql('privileged', $rights), $before =~ s/wait_until_idle\(interval\)/wait_until_idle(interval,boolean)/r, 'what was granted stays, and nothing comes by default');
$node->safe_psql('privileged', q{REVOKE ALL ON SCHEMA outbox FROM by_default, by_hand; REVOKE ALL ON outbox.route FROM by_default, by_hand;
	REVOKE ALL ON FUNCTION outbox.wait_until_idle(interval, boolean) FROM by_hand});
is($node->safe_psql('privileged', q{SELECT p.proname, p.pronargs, has_function_privilege('makes_routes', p.oid, 'EXECUTE') FROM pg_proc p
	WHERE p.pronamespace = 'outbox'::regnamespace AND p.proname IN ('create_route', 'alter_route', 'drop_route') ORDER BY 1}),
	"alter_route|13|t\ncreate_route|14|t\ndrop_route|1|f", 'who might make routes may give them a format');
is($node->safe_psql('privileged', q{SELECT p.pronargs, has_function_privilege('sends_again', p.oid, 'EXECUTE WITH GRANT OPTION') FROM pg_proc p WHERE p.oid = 'outbox.replay'::regproc}), '14|t',
	'who might send again, and let others, may');
$node->safe_psql('privileged', q{REVOKE ALL ON ALL FUNCTIONS IN SCHEMA outbox FROM makes_routes; REVOKE ALL ON PROCEDURE outbox.replay FROM sends_again});
same_as_fresh('privileged');
# What the update makes is dropped before what has been there: the question what is lost comes first all the same.
$node->safe_psql('bare', q{CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_log; SELECT outbox.create_route('r', 'nowhere');
	SELECT outbox.pause('r', reason => 'waits')});
$node->safe_psql('bare', q{SELECT outbox.emit('order', 1, 'created', '{}')});
my ($code, $out, $err) = $node->psql('bare', 'DROP EXTENSION outbox CASCADE');
like($err, qr/cannot drop extension outbox because it holds undelivered events/, 'an updated extension with undelivered events is not dropped');
unlike($err, qr/does not exist/, 'and the question has what it needs');
($code, $out, $err) = $node->psql('bare', 'CREATE FUNCTION outbox.mine() RETURNS int LANGUAGE sql RETURN 1; DROP FUNCTION outbox.mine()');
is($code, 0, 'what is not its own goes without being asked') or diag($err);
($code, $out, $err) = $node->psql('bare', 'SET outbox.allow_loss = on; DROP EXTENSION outbox CASCADE');
is($code, 0, 'unless it may be lost') or diag($err);
# When it was due was known only as long as it waited for that: from now on always.
is($node->safe_psql('bare', q{BEGIN; CREATE EXTENSION outbox VERSION '0.1'; CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_log;
	INSERT INTO outbox.route (name, server, topic, lanes, start_snapshot, start_time) VALUES ('r', 'nowhere', 't', 1, pg_current_snapshot(), 'infinity');
	INSERT INTO outbox.parked (route_id, lane, created_at, id, replay, state, due_at, aggregate_type, event_type, topic)
	SELECT r.id, 0, now(), gen_random_uuid(), n, CASE n WHEN 2 THEN 'retrying' ELSE 'scheduled' END, now() + n * interval '1 h', 't', 'e', 't' FROM outbox.route r, generate_series(0, 2) n;
	INSERT INTO outbox.parked (route_id, lane, created_at, id, state, due_at, aggregate_type, event_type, topic)
	SELECT r.id, 0, now(), gen_random_uuid(), 'retrying', now(), 't', 'e', 't' FROM outbox.route r;
	ALTER EXTENSION outbox UPDATE; SELECT replay, state, deliver_at = due_at FROM outbox_internal.parked ORDER BY 1, 2; ROLLBACK}),
	"0|retrying|\n0|scheduled|t\n1|scheduled|\n2|retrying|", 'what waits for its time keeps it');

# --- in use ---
$node->safe_psql('postgres', "DROP EXTENSION outbox; CREATE EXTENSION outbox VERSION '0.1'");
# As the library of 0.1 made routes; the one of today works on tables of its own version.
$node->safe_psql('postgres', "CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
foreach my $route ([ 'orders', 2 ], [ 'again', 1 ])
{
	$node->safe_psql('postgres', qq{
		WITH r AS (INSERT INTO outbox.route (name, server, topic, lanes, start_snapshot, start_time)
		  VALUES ('$route->[0]', 'redis', '$route->[0]', $route->[1], pg_current_snapshot(), 'infinity') RETURNING id)
		INSERT INTO outbox.lane (route_id, lane, window_from) SELECT r.id, n, pg_current_snapshot() FROM r, generate_series(0, $route->[1] - 1) n});
}
$node->safe_psql('postgres', q{SELECT outbox.pause(route => 'again', reason => 'waits for the update')});
$node->safe_psql('postgres', q{SELECT outbox.emit('order', i % 5, 'created', jsonb_build_object('n', i)) FROM generate_series(1, 100) i});
$node->safe_psql('postgres', q{SELECT outbox.emit('order', 7, 'late', '{"n": 101}', deliver_at => now() + interval '1 second')});
is($redis->xlen('orders'), 0, 'nothing is published from tables of another version');
is($node->safe_psql('postgres', q{SELECT status, hint FROM outbox.doctor() WHERE "check" = 'version'}),
	'problem|ALTER EXTENSION outbox UPDATE, or restart the server after installing the new library.', 'doctor() says what to do');
foreach my $view (qw(lag destination dead_letter))
{
	my $said = ($node->psql('postgres', "SELECT * FROM outbox.$view"))[2];
	unlike($said, qr/ERROR(?!.*HINT:  Where outbox.version\(\) shows two versions: ALTER EXTENSION outbox UPDATE)/s, "$view works, or says so, too");
}
foreach my $call (q(outbox.create_route('new', 'redis')), q(outbox.alter_route('again', lanes => 2)), 'outbox.adopt()')
{
	like(($node->psql('postgres', "SELECT $call"))[2], qr/ERROR: .*HINT: .*ALTER EXTENSION outbox UPDATE/s, "$call says so");
}
$node->safe_psql('postgres', q{CREATE ROLE app; SELECT outbox.grant_emit('app'); GRANT EXECUTE ON FUNCTION outbox.wait_until_idle(interval) TO app});
my $as_app = q{SET ROLE app; BEGIN; INSERT INTO outbox.event (id, aggregate_type, event_type, payload) VALUES ('11111111-2222-3333-4444-555555555555', 'o', 'e', '7');
	SELECT payload FROM outbox.event WHERE id = '11111111-2222-3333-4444-555555555555'; ROLLBACK};
is($node->safe_psql('postgres', $as_app), '7', 'the view of own events works before the update');
# Operators, and for each view a role that may read it and call what it asks, and nothing else.
$node->safe_psql('postgres', q{CREATE ROLE oncall; CREATE ROLE "On Call"; SELECT outbox.grant_operate('oncall'), outbox.grant_operate('"On Call"')});
my @views = split /\n/, $node->safe_psql('postgres', q{SELECT c.relname FROM pg_class c, aclexplode(c.relacl) x
	WHERE c.relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('outbox', 'outbox_internal')) AND c.relkind = 'v' AND x.grantee = 'pg_monitor'::regrole ORDER BY 1});
cmp_ok(scalar(@views), '>', 4, 'there are views to read');
foreach my $view (@views)
{
	$node->safe_psql('postgres', qq{CREATE ROLE "reads $view"; GRANT USAGE ON SCHEMA outbox TO "reads $view"; GRANT SELECT ON outbox.$view TO "reads $view";
		SELECT format('GRANT EXECUTE ON FUNCTION %s TO "reads $view"', d.refobjid::regprocedure) FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
		WHERE r.ev_class = 'outbox.$view'::regclass AND d.refclassid = 'pg_proc'::regclass AND d.refobjid IN (SELECT oid FROM pg_proc WHERE pronamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('outbox', 'outbox_internal'))) \\gexec});
}
$node->safe_psql('postgres', 'ALTER ROLE app RENAME TO app_renamed; ALTER ROLE app_renamed RENAME TO app'); # nothing of 0.2 is asked
$node->safe_psql('postgres', 'ALTER EXTENSION outbox UPDATE');
is($node->safe_psql('postgres', q{SELECT string_agg(relid::regclass::text, ' ') FROM pg_class p, pg_partition_tree(p.oid) JOIN pg_class c ON c.oid = relid
	WHERE p.relnamespace = 'outbox_internal'::regnamespace AND p.relkind = 'p' AND c.relreplident <> 'f'}), '', 'day tables that were there have a replica identity, too');
is($node->safe_psql('postgres', $as_app), '7', 'and after it');
is($node->safe_psql('postgres', q{SELECT count(*) FROM outbox_internal.emit_routines() r WHERE NOT has_function_privilege('app', r, 'EXECUTE')}), 0, 'who might emit may use every form of it');
like(($node->psql('postgres', 'SET ROLE app; DELETE FROM outbox.event'))[2], qr/cannot delete an event/, 'and is told that the log is append-only');
foreach my $view (@views)
{
	is(($node->psql('postgres', qq{SET ROLE "reads $view"; SELECT * FROM outbox.$view}))[2], '', "$view is read after it");
}
# As one who is made an operator in a fresh database: every right on every object, and with them every view and function.
my $operates = q{SELECT object || ' ' || privilege_type FROM (
	SELECT c.oid::regclass::text AS object, x.* FROM pg_class c, aclexplode(c.relacl) x WHERE c.relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('outbox', 'outbox_internal'))
	UNION ALL SELECT c.oid::regclass || '.' || a.attname, x.* FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid, aclexplode(a.attacl) x WHERE c.relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('outbox', 'outbox_internal'))
	UNION ALL SELECT p.oid::regprocedure::text, x.* FROM pg_proc p, aclexplode(p.proacl) x WHERE p.pronamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('outbox', 'outbox_internal'))
	UNION ALL SELECT t.oid::regtype::text, x.* FROM pg_type t, aclexplode(t.typacl) x WHERE t.typnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('outbox', 'outbox_internal'))
	UNION ALL SELECT n.nspname, x.* FROM pg_namespace n, aclexplode(n.nspacl) x WHERE n.nspname = 'outbox') a
	WHERE grantee = 'ROLE'::regrole ORDER BY 1};
$node->safe_psql('fresh', q{SELECT outbox.grant_operate('oncall')});
my $fresh_operator = $node->safe_psql('fresh', $operates =~ s/ROLE/oncall/r);
cmp_ok(scalar(split /\n/, $fresh_operator), '>', 30, 'an operator has rights');
is($node->safe_psql('postgres', $operates =~ s/ROLE/$_/r), $fresh_operator, "$_ has all the rights of an operator after it") foreach 'oncall', '"On Call"';
foreach my $view (split /\n/, $node->safe_psql('fresh', q{SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'outbox'::regnamespace
	AND c.relkind = 'v' AND has_table_privilege('oncall', c.oid, 'SELECT')}))
{
	is(($node->psql('postgres', "SET ROLE oncall; SELECT * FROM $view"))[2], '', "an operator reads $view after it");
}
foreach my $call (q{pause('orders', topic => 'orders', reason => 'may')}, q{resume('orders', topic => 'orders')}, q{status('11111111-2222-3333-4444-555555555555')}, 'doctor()', 'version()')
{
	is(($node->psql('postgres', "SET ROLE oncall; SELECT * FROM outbox.$call"))[2], '', "an operator calls $call after it");
}
is($node->safe_psql('postgres', q{SET ROLE app; SELECT outbox.wait_until_idle('0', include_delayed => true)}), 'f', 'roles that might wait may wait, here for a route that is paused');
is($node->safe_psql('postgres', 'SELECT role, topics IS NULL FROM outbox_internal.emit_right'), 'app|t', 'roles that might emit may emit to every topic');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_init_privs i, aclexplode(i.initprivs) x WHERE x.grantee = ANY (ARRAY['app', 'oncall', '"On Call"']::regrole[])}), '0',
	'what was granted is not called part of the extension');
my ($dump) = run_command([ 'pg_dump', '--schema-only', '-d', $node->connstr('postgres') ]);
like($dump, qr/^GRANT ALL ON FUNCTION outbox\.$_\b.* TO app;$/m, "so a dump has it: $_") foreach qw(emit emit_tombstone wait_until_idle);
like($dump, qr/^GRANT [A-Z,]*SELECT[A-Z,]* ON TABLE outbox\.event TO app;$/m, 'so a dump has it: the view');
$node->safe_psql('postgres', q{REVOKE EXECUTE ON FUNCTION outbox.wait_until_idle(interval, boolean) FROM app; SELECT outbox.revoke_emit('app'); DROP ROLE app});
$node->safe_psql('postgres', q{SELECT outbox.revoke_operate('oncall'), outbox.revoke_operate('"On Call"'); DROP ROLE "On Call"});
is($node->safe_psql('postgres', $operates =~ s/ROLE/oncall/r), '', 'an operator who is none any more has nothing');
$node->safe_psql('postgres', qq{DROP OWNED BY "reads $_"; DROP ROLE "reads $_"}) foreach @views;
same_as_fresh('postgres');
ok(wait_until(sub { $redis->xlen('orders') == 101 }), 'what had been emitted before the update is published after it');
is($redis->xlen('again'), 0, 'a pause stays one');
$node->safe_psql('postgres', q{SELECT outbox.resume(route => 'again')});
ok(wait_until(sub { $redis->xlen('again') == 101 }), 'until it is ended');
$node->safe_psql('postgres', q{SELECT outbox.emit('order', 7, 'created', '{"n": 102}')});
ok(wait_idle($node), 'and it goes on');
foreach my $stream (qw(orders again))
{
	my %last;
	my ($twice, $order) = (0, 0);
	my %seen;
	my @entries = map { /"n": (\d+)/ ? $1 : () } @{ $redis->column($stream, 'payload') };
	foreach my $n (@entries)
	{
		$twice++ if $seen{$n}++;
		$order++ if $n <= 100 && ($last{ $n % 5 } // 0) > $n;
		$last{ $n % 5 } = $n if $n <= 100;
	}
	is("@{[scalar(keys %seen)]} $twice $order", '102 0 0', "$stream: everything, once, in order");
}
is($node->safe_psql('postgres', q{SELECT count(*) FROM outbox.doctor() WHERE "check" = 'version' AND status <> 'ok'}), '0', 'doctor() has nothing to say of versions');
no_server_crashed($node);
done_testing();
