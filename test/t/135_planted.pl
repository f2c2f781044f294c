# A hostile database: in front of pg_catalog stands a schema with an evil twin of each of its functions, aggregates,
# operators, types and tables, also for the workers, and temporary tables have the names of ours. Nobody ever calls one:
# not CREATE EXTENSION, emit() or any other function, not a worker. Roles with the rights that a deployment gives, its
# database's owner, and one that was granted ALL on the tables can plant nothing that would run with other rights, and
# cannot point the server at an address of their own.
# matrix: B9 G2 G3 G5
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(extension => 0, conf => "max_worker_processes = 16\n");
# Everything happens in database hostile; this one is where the test looks from.
$node->safe_psql('postgres', 'CREATE ROLE owner LOGIN CREATEROLE CREATEDB; CREATE DATABASE hostile OWNER owner');
my $evil_path = 'evil, pg_catalog, public';

# --- the twins ---
my $twins = $node->safe_psql('hostile', <<'SQL');
CREATE SCHEMA evil;
GRANT USAGE ON SCHEMA evil TO PUBLIC;
SET check_function_bodies = off;
DO $$
DECLARE
  made int := 0; missed int := 0; n int := 0; t record; result text; body text;
BEGIN
  FOR t IN SELECT p.oid, p.proname, p.prokind, p.proretset, pg_get_function_identity_arguments(p.oid) AS full_arguments,
      oidvectortypes(p.proargtypes) AS arguments, format_type(p.prorettype, NULL) AS result, p.pronargs
    FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a') AND p.prorettype <> 'trigger'::regtype
      AND p.prorettype <> 'event_trigger'::regtype LOOP
    body := format('BEGIN RAISE LOG ''evil function %s''; RAISE ''evil function %s''; END', t.proname, t.proname);
    BEGIN
      IF t.prokind = 'f' THEN
        EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s %s LANGUAGE plpgsql AS %L', t.proname,
          replace(t.arguments, '"any"', 'anyelement'), CASE WHEN t.proretset THEN 'SETOF' END, t.result, body);
      ELSE
        n := n + 1;
        EXECUTE format('CREATE FUNCTION evil.state_%s(int%s) RETURNS int LANGUAGE plpgsql AS %L', n,
          CASE WHEN t.pronargs > 0 THEN ', ' || replace(t.arguments, '"any"', 'anyelement') END, body);
        EXECUTE format('CREATE AGGREGATE evil.%I(%s) (SFUNC = evil.state_%s, STYPE = int, INITCOND = ''0'')', t.proname,
          CASE WHEN t.pronargs > 0 THEN replace(t.arguments, '"any"', 'anyelement') ELSE '*' END, n);
      END IF;
      made := made + 1;
    EXCEPTION WHEN OTHERS THEN missed := missed + 1;
    END;
  END LOOP;
  EXECUTE format('CREATE FUNCTION evil.format(text, VARIADIC text[]) RETURNS text LANGUAGE plpgsql AS %L', 'BEGIN RAISE LOG ''evil function format''; RAISE ''evil function format''; END');
  FOR t IN SELECT o.oprname, format_type(o.oprleft, NULL) AS l, format_type(o.oprright, NULL) AS r, format_type(o.oprresult, NULL) AS result, o.oprleft
    FROM pg_operator o WHERE o.oprnamespace = 'pg_catalog'::regnamespace LOOP
    n := n + 1;
    BEGIN
      EXECUTE format('CREATE FUNCTION evil.operator_%s(%s%s) RETURNS %s LANGUAGE plpgsql AS %L', n, CASE WHEN t.oprleft <> 0 THEN t.l || ', ' END, t.r, t.result,
        format('BEGIN RAISE LOG ''evil operator %s''; RAISE ''evil operator %s''; END', replace(t.oprname, '%', '%%'), replace(t.oprname, '%', '%%')));
      EXECUTE format('CREATE OPERATOR evil.%s (FUNCTION = evil.operator_%s%s, RIGHTARG = %s)', t.oprname, n, CASE WHEN t.oprleft <> 0 THEN ', LEFTARG = ' || t.l END, t.r);
      made := made + 1;
    EXCEPTION WHEN OTHERS THEN missed := missed + 1;
    END;
  END LOOP;
  CREATE FUNCTION evil.trip() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE LOG ''evil type or table''; RAISE ''evil type or table''; END';
  FOR t IN SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' AND typelem = 0 LOOP
    BEGIN
      EXECUTE format('CREATE DOMAIN evil.%I AS pg_catalog.%I CHECK (evil.trip())', t.typname, t.typname);
      made := made + 1;
    EXCEPTION WHEN OTHERS THEN missed := missed + 1;
    END;
  END LOOP;
  FOR t IN SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v') LOOP
    BEGIN
      EXECUTE format('CREATE VIEW evil.%I AS SELECT c.* FROM pg_catalog.%I c WHERE evil.trip()', t.relname, t.relname);
    EXCEPTION WHEN OTHERS THEN  -- a column of type anyarray
      EXECUTE format('CREATE VIEW evil.%I AS SELECT evil.trip() AS oid', t.relname);
    END;
    made := made + 1;
  END LOOP;
  GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA evil TO PUBLIC;
  GRANT SELECT ON ALL TABLES IN SCHEMA evil TO PUBLIC;
  CREATE TEMP TABLE result AS SELECT made, missed;
END $$;
SELECT made FROM pg_temp.result;
SQL
cmp_ok($twins, '>', 3000, "$twins evil twins");
# What the owner of a database may set for all its sessions, workers included.
$node->safe_psql('postgres', "SET ROLE owner; $_") foreach (
	"ALTER DATABASE hostile SET search_path = $evil_path", 'ALTER DATABASE hostile SET role = owner', q{ALTER DATABASE hostile SET datestyle = 'SQL, DMY'},
	q{ALTER DATABASE hostile SET timezone = 'Asia/Kathmandu'}, q{ALTER DATABASE hostile SET intervalstyle = 'sql_standard'}, q{ALTER DATABASE hostile SET bytea_output = 'escape'},
	'ALTER DATABASE hostile SET array_nulls = off', 'ALTER DATABASE hostile SET extra_float_digits = -15', 'ALTER DATABASE hostile SET standard_conforming_strings = off',
	'ALTER DATABASE hostile SET transform_null_equals = on', 'ALTER DATABASE hostile SET quote_all_identifiers = on', 'ALTER DATABASE hostile SET enable_indexscan = off',
	'ALTER DATABASE hostile SET statement_timeout = 1', 'ALTER DATABASE hostile SET default_transaction_isolation = serializable',
	'ALTER DATABASE hostile SET default_transaction_read_only = on', 'ALTER DATABASE hostile SET row_security = off', q{ALTER DATABASE hostile SET client_encoding = 'LATIN1'});
# Of our sessions, not of the workers: a millisecond is soon over.
$ENV{PGOPTIONS} = '-c statement_timeout=0';

# A session as one would be: as superuser or another role, with the twins in front, and temporary tables besides.
my $temporary = join '', map { "CREATE TEMP TABLE $_ (evil int);" } qw(pg_class pg_extension pg_proc pg_foreign_server pg_namespace log route lane progress tick parked identity event origin pause);
sub as
{
	my ($role, $sql, %how) = @_;
	my ($status, $out, $err) = $node->psql('hostile',
		"SET role = none; SET statement_timeout = 0; SET default_transaction_read_only = off; SET default_transaction_isolation = 'read committed'; SET standard_conforming_strings = on;"
		. ($how{path} ? "SET search_path = $how{path};" : $temporary) . ($role eq '' ? '' : "SET ROLE $role;") . "\n$sql", on_error_stop => 1);
	return ($status, $out, $err);
}
sub runs
{
	my ($name, $role, $sql) = @_;
	my ($status, $out, $err) = as($role, $sql);
	ok($status == 0, $name) or diag "$sql\n$err";
	return $out;
}

runs('CREATE EXTENSION', '', 'CREATE EXTENSION outbox');
$node->safe_psql('postgres', 'CREATE ROLE app; CREATE ROLE oncall; CREATE ROLE looks IN ROLE pg_monitor; CREATE ROLE writes IN ROLE pg_write_all_data, pg_read_all_data; CREATE ROLE granted');
runs('grants', '', q{SELECT outbox.grant_emit('app'), outbox.grant_operate('oncall')});
runs('a server and routes', '', qq{CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
	CREATE SERVER dead FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');
	SELECT outbox.create_route('all', server => 'redis', topic => 'events', lanes => 2);
	SELECT outbox.create_route('waits', server => 'dead', topic => 'waits', event_types => '{e,twin}', start => 'earliest');
	SELECT outbox.alter_route('all', lanes => 3, max_attempts => 3);});
foreach my $role ('app', '')
{
	runs('emitting as ' . ($role || 'superuser'), $role, q{
		SELECT outbox.emit('order', 1, 'e', '{"a": 1}', '{"h": "x"}', 'events');
		SELECT outbox.emit('order', '018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0f'::pg_catalog.uuid, 'twin', '{"a": 1}'::pg_catalog.json);
		SELECT outbox.emit_text('order', '1', 'e', 'text'), outbox.emit_bytes('order', 1, 'e', '\x00'), outbox.emit_tombstone('order', 1, 'e');
		SELECT outbox.emit_many('[{"aggregate_type": "order", "event_type": "e", "payload": 1}]');
		SELECT outbox.emit_many('order', '{a,b}', 'e', '{1,2}');
		INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload) VALUES
			('11111111-2222-4333-8444-555555555555', 'order', '1', 'e', '{}') RETURNING created_at;
		CREATE TEMP TABLE orders (id pg_catalog.int4, total pg_catalog.numeric, at pg_catalog.timestamptz);
		CREATE TRIGGER events AFTER INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'id');
		INSERT INTO orders VALUES (1, 2.5, '2026-01-31 12:00+00'); UPDATE orders SET total = 3; DELETE FROM orders;
		SELECT * FROM outbox.event;});
}
my $each = 12;
ok(wait_until(sub { $redis->xlen('events') >= 2 * $each }, 20), 'workers deliver');
is($redis->xlen('events'), 2 * $each, 'each event once');
runs('an insert by hand and a copy of an identity', '', q{INSERT INTO outbox_internal.log (created_at, id, xid, aggregate_type, event_type, payload)
	VALUES ('now', '11111111-2222-4333-8444-555555555555', '3', 'order', 'by hand', '\x00');
	SET outbox.allow_loss = on; UPDATE outbox_internal.identity SET instance = 'another';});
runs('adopt()', '', 'SELECT outbox.adopt(true); SELECT outbox.adopt()');
runs("looking, as $_->[0]", @$_) foreach map { my $role = $_; map { [ $role, $_ ] } (
	'SELECT * FROM outbox.lag', 'SELECT * FROM outbox.destination', 'SELECT * FROM outbox.worker', 'SELECT * FROM outbox.doctor()', 'SELECT * FROM outbox.dead_letter',
	'SELECT * FROM outbox.dead_letter_summary', 'SELECT * FROM outbox.blocked_key', q{SELECT * FROM outbox.status('11111111-2222-4333-8444-555555555555')},
	'SELECT * FROM outbox.version()') } ('looks', 'oncall');
my $parked = q{INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, payload, topic, error_class, error_code)
	SELECT r.id, 0, ('2026-01-01 00:00:0' OPERATOR(pg_catalog.||) n)::pg_catalog.timestamptz, ('00000000-0000-4000-8000-00000000000' OPERATOR(pg_catalog.||) n)::pg_catalog.uuid, 'order',
		'k', 'e', '{}', 'waits', 'message', 'CODE' FROM outbox.route r, (VALUES ('1'), ('2'), ('3'), ('4')) v (n) WHERE r.name OPERATOR(pg_catalog.=) 'waits'};
runs('parking', '', $parked);
runs('acting as oncall', 'oncall', q{
	SELECT outbox.retry('00000000-0000-4000-8000-000000000001', reason => 'x', payload => '{"a": 1}', headers => '{"a": "b"}', topic => 'waits');
	SELECT outbox.skip('00000000-0000-4000-8000-000000000002', 'x'); SELECT outbox.discard('00000000-0000-4000-8000-000000000003', 'x');
	SELECT * FROM outbox.parked_content('00000000-0000-4000-8000-000000000004');
	SELECT outbox.pause('all', topic => 'events', reason => 'x'), outbox.pause('all', aggregate_type => 'order', aggregate_id => 'k', reason => 'x'), outbox.pause(server => 'dead', reason => 'x');
	SELECT outbox.resume('all', topic => 'events'), outbox.resume('all', aggregate_type => 'order', aggregate_id => 'k'), outbox.resume(server => 'dead');});
# Procedures that commit, as the caller: the session's own path, no SET ROLE.
runs('the procedures', '', q{
	CALL outbox.redrive('waits', topic => 'w*', aggregate_type => 'order', aggregate_id => 'k', event_type => 'e', since => '2020-01-01', until => 'infinity', error => '*', per_second => 50, reason => 'x', dry_run => false);
	CALL outbox.discard_dead_letters('waits', error => '*', dry_run => false, reason => 'x');
	CALL outbox.replay(since => '-infinity', route => 'all', dry_run => false, reason => 'x');
	CALL outbox.seek('all', '-infinity', reason => 'x', dry_run => false);
	SELECT outbox.cancel_replay(number, 'x') FROM outbox.replay;
	SELECT * FROM outbox.peek('waits', NULL);
	SELECT outbox.wait_for('11111111-2222-4333-8444-555555555555', '10 ms'); SELECT outbox.wait_until_idle('10 ms');
	SELECT outbox.alter_route('waits', server => 'redis');});
ok(wait_until(sub { $redis->xlen('waits') > 0 }, 20), 'the other route delivers');
is(runs('idle', '', q{SELECT outbox.wait_until_idle('20 s')}), 't', 'all is delivered');

# --- planting ---
$node->safe_psql('postgres', 'GRANT app TO granted');
runs('what teams do', '', 'GRANT ALL ON ALL TABLES IN SCHEMA outbox, outbox_internal TO granted; GRANT ALL ON ALL SEQUENCES IN SCHEMA outbox, outbox_internal TO granted; GRANT USAGE ON SCHEMA outbox, outbox_internal TO looks, writes, owner, granted');
my $plant = q{
	CREATE FUNCTION public.planted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE LOG ''planted as %'', current_user; RETURN NEW; END';
	CREATE FUNCTION public.planted_value(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RAISE LOG ''planted as %'', current_user; RETURN $1; END';
	GRANT EXECUTE ON FUNCTION public.planted(), public.planted_value(text) TO PUBLIC;
	CREATE FUNCTION public.try_all() RETURNS text LANGUAGE plpgsql AS $f$
	DECLARE t record; what text; done text := ''; code text;
	BEGIN
	  FOR t IN SELECT c.oid::regclass::text AS name, c.relkind, (SELECT a.attname FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = 1) AS first FROM pg_class c
	    WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND c.relkind IN ('r', 'p', 'v') LOOP
	    FOREACH what IN ARRAY ARRAY['CREATE TRIGGER planted BEFORE INSERT OR UPDATE ON %1$s FOR EACH ROW EXECUTE FUNCTION public.planted()',
	        'CREATE TRIGGER planted AFTER INSERT OR UPDATE OR DELETE ON %1$s FOR EACH STATEMENT EXECUTE FUNCTION public.planted()',
	        'CREATE CONSTRAINT TRIGGER planted AFTER INSERT OR UPDATE ON %1$s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.planted()',
	        'CREATE POLICY planted ON %1$s USING (public.planted_value(''x'') IS NOT NULL)', 'ALTER TABLE %1$s ENABLE ROW LEVEL SECURITY',
	        'ALTER TABLE %1$s ALTER COLUMN %2$I SET DEFAULT public.planted_value(''x'')', 'CREATE RULE planted AS ON INSERT TO %1$s DO ALSO SELECT public.planted_value(''x'')',
	        'CREATE INDEX ON %1$s (public.planted_value(''x''))', 'ALTER TABLE %1$s ADD CHECK (public.planted_value(''x'') IS NOT NULL)',
	        'ALTER TABLE %1$s DISABLE TRIGGER ALL', 'ALTER TABLE %1$s OWNER TO CURRENT_USER', 'CREATE TABLE public.planted_child () INHERITS (%1$s)',
	        'CREATE STATISTICS public.planted_statistics ON (public.planted_value(''x'')), %2$I FROM %1$s', 'CREATE PUBLICATION planted FOR TABLE %1$s', 'DROP TABLE %1$s CASCADE'] LOOP
	      BEGIN
	        EXECUTE format(what, t.name, t.first);
	        done := done || format(what, t.name, t.first) || '; ';
	        RAISE 'undo' USING ERRCODE = 'UNDO1';
	      EXCEPTION WHEN OTHERS THEN NULL;
	      END;
	    END LOOP;
	  END LOOP;
	  RETURN done;
	END $f$;
	GRANT EXECUTE ON FUNCTION public.try_all() TO PUBLIC; GRANT CREATE ON SCHEMA public TO PUBLIC};
my ($status, $out, $err) = as('', $plant, path => 'pg_catalog, public');
is($status, 0, 'objects are planted') or diag $err;
foreach my $role (qw(app oncall looks writes owner granted))
{
	($status, $out, $err) = as($role, 'SELECT public.try_all()', path => 'pg_catalog, public');
	is($out, '', "$role can plant nothing on any table of outbox") or diag $err;
}
($status, $out, $err) = as('granted', "\\set VERBOSITY verbose\nCREATE TRIGGER planted BEFORE UPDATE ON outbox_internal.lane FOR EACH ROW EXECUTE FUNCTION public.planted()", path => 'pg_catalog, public');
like($err, qr/ERROR:  42501: must be owner of the tables of outbox/, 'the reason is given') ;
# A name that means a table of its own when the command is given, and one of outbox by the time it has its lock.
my @plainly = ('SET search_path = pg_catalog', 'SET statement_timeout = 0', 'SET lock_timeout = 0', 'SET default_transaction_read_only = off');
my $other = $node->background_psql('hostile', on_error_stop => 1, timeout => 600);
$other->query_safe($_) foreach @plainly, 'CREATE SCHEMA front', 'GRANT USAGE ON SCHEMA front TO granted', 'CREATE TABLE front.lane (id int)', 'BEGIN', 'DROP TABLE front.lane';
my $planter = $node->background_psql('hostile', on_error_stop => 0, timeout => 600);
$planter->query($_) foreach @plainly, 'SET search_path = front, outbox_internal', "SET application_name = 'planter'", 'SET ROLE granted';
$planter->query_until(qr/given/, "\\echo given\nCREATE TRIGGER planted BEFORE UPDATE ON lane FOR EACH ROW EXECUTE FUNCTION public.planted();\n");
ok(wait_until(sub { $node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'planter' AND wait_event_type = 'Lock'}) eq '1' }), 'the command waits for the table of its own');
$other->query_safe('COMMIT');
$planter->query('SELECT 1');
like($planter->{stderr}, qr/must be owner of the tables of outbox/, 'what the command finds in the end counts');
is($other->query_safe("SELECT count(*) FROM pg_trigger WHERE tgname = 'planted'"), '0', 'no trigger is left');
$other->query_safe('DROP SCHEMA front');
$_->quit foreach $other, $planter;

# --- where the server connects to is for those who have USAGE on the wrapper ---
foreach my $role (qw(app oncall looks writes owner granted))
{
	my @refused = (q{CREATE SERVER mine FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '169.254.169.254', port '80')},
		q{CREATE SERVER mine FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '169.254.169.254:80')},
		q{ALTER SERVER redis OPTIONS (SET host '169.254.169.254')}, q{CREATE USER MAPPING FOR CURRENT_USER SERVER redis OPTIONS (password 'x')},
		q{CREATE USER MAPPING FOR PUBLIC SERVER redis OPTIONS (password 'x')}, q{CREATE FOREIGN DATA WRAPPER mine VALIDATOR outbox_internal.redis_validator},
		q{SELECT outbox.create_route('mine', server => 'redis')}, q{SELECT outbox.alter_route('all', server => 'dead')});
	($status, $out, $err) = $node->psql('hostile', "\\set VERBOSITY sqlstate\n" . join(";\n", 'SET statement_timeout = 0', 'SET default_transaction_read_only = off',
		'SET search_path = pg_catalog, public', 'SET ROLE none', "SET ROLE $role", @refused) . ';', on_error_stop => 0);
	is(scalar(() = $err =~ /ERROR:  42501/g), scalar(@refused), "$role: no server, no mapping, no route") or diag "$out\n$err";
}
# USAGE on a server lets a role have a mapping of its own: not an address, and not one that workers would use.
$node->safe_psql('postgres', 'CREATE ROLE maps');
as('', 'GRANT USAGE ON FOREIGN SERVER redis TO maps', path => 'pg_catalog');
foreach my $option (q{host '169.254.169.254'}, q{port '80'}, q{unix_socket '/tmp/x'})
{
	($status, $out, $err) = as('maps', "CREATE USER MAPPING FOR maps SERVER redis OPTIONS ($option)", path => 'pg_catalog');
	isnt($status, 0, "no address in a user mapping: $option");
}
($status) = as('maps', q{CREATE USER MAPPING FOR maps SERVER redis OPTIONS (password 'wrong')}, path => 'pg_catalog');
is($status, 0, 'a mapping of its own it may have');
runs('one more event', 'app', q{SELECT outbox.emit('order', 1, 'last', '{}')});
is(runs('idle', '', q{SELECT outbox.wait_until_idle('20 s')}), 't', 'which workers pass by');
my $log = slurp_file($node->logfile);
my %evil;
$evil{$1}++ while $log =~ /LOG:  (evil .*|planted as .*)/g;
is(join('; ', sort keys %evil), '', 'no evil twin nor anything planted was ever called');
# They would have been, unguarded:
foreach my $sql ('SELECT now()', "SELECT 1 = 1", "SELECT 'x'::text", 'SELECT count(*) FROM pg_class')
{
	(undef, undef, $err) = $node->psql('hostile', "SET statement_timeout = 0; $sql");
	like($err, qr/ERROR:  evil/, "an evil twin answers: $sql");
}
unlike($log, qr/\b(keeper|relay|launcher)\b.*(ERROR|FATAL)|outbox (keeper|relay).*evil/, 'no worker was hindered');
no_server_crashed($node);
done_testing();
