# Triggers that call emit_row() as it cannot be called, with NULL for an argument, twice for one change, or not at all for tables below
# by INHERITS. doctor() tells of each, with what to type, and of no other.
# matrix: C13
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0);
sub run { return $node->safe_psql('postgres', 'SET outbox.lone_emit = allow;' . join '', @_) }
my $what = q{FROM outbox.doctor() WHERE "check" = 'triggers' AND hint IS NOT NULL};
sub told { return run(qq{SELECT status || ': ' || detail $what ORDER BY detail}) }
sub hints { return run(qq{SELECT hint $what ORDER BY detail}) }
# What it says to type: of what is to be done, and of what may be.
sub obey { run(run(qq{SELECT regexp_replace(hint, 'And, if its rows are to be emitted: |If they are to be emitted: ', '', 'g') $what})); return }
sub emitted { return run(qq{SELECT coalesce(string_agg(event_type || ' ' || aggregate_id, ', ' ORDER BY created_at, event_type), '') FROM outbox_internal.log WHERE aggregate_type = '$_[0]'}) }
my $events = 'AFTER INSERT OR UPDATE OR DELETE';
my $each = 'FOR EACH ROW EXECUTE FUNCTION outbox.emit_row';
my $calls = 'which calls outbox.emit_row(),';

run(qq{CREATE EXTENSION outbox; CREATE SCHEMA "My shop"; CREATE TABLE "My shop"."Orders" (id int PRIMARY KEY, v int);
	CREATE TRIGGER "00's" $events ON "My shop"."Orders" $each('it''s', 'id', '', 'v')});
is(told(), '', 'nothing to tell of one that is right');

# --- as it cannot be called ---
run(qq{
	CREATE TABLE a (id int PRIMARY KEY); CREATE VIEW seen AS SELECT * FROM a;
	CREATE TRIGGER before BEFORE INSERT OR DELETE ON a $each('a', 'id', 'the.a');
	CREATE TRIGGER each AFTER UPDATE ON a FOR EACH STATEMENT EXECUTE FUNCTION outbox.emit_row('a', 'id');
	CREATE TRIGGER emptied AFTER TRUNCATE ON a FOR EACH STATEMENT EXECUTE FUNCTION outbox.emit_row('a', 'id');
	CREATE TRIGGER nameless AFTER INSERT ON a $each('', 'id');
	CREATE TRIGGER naked AFTER INSERT ON a $each();
	CREATE TRIGGER one AFTER INSERT ON a $each('a');
	CREATE TRIGGER view INSTEAD OF INSERT ON seen $each('a', 'id')});
is(told(), join("\n", map { "problem: Trigger $_: every write that fires it fails." }
	"before on public.a, $calls is a BEFORE trigger", "each on public.a, $calls is FOR EACH STATEMENT", "emptied on public.a, $calls is FOR EACH STATEMENT",
	"naked on public.a, $calls has no arguments", "nameless on public.a, $calls has an empty aggregate type", "one on public.a, $calls has no key column",
	"view on public.seen, $calls is an INSTEAD OF trigger"), 'each of the wrong ones');
my $again = 'And, if its rows are to be emitted: CREATE TRIGGER';
my $row = 'FOR EACH ROW EXECUTE FUNCTION outbox.emit_row';
is(hints(), join("\n", "DROP TRIGGER before ON public.a; $again before AFTER INSERT OR DELETE ON public.a $row('a', 'id', 'the.a');",
	"DROP TRIGGER each ON public.a; $again each AFTER UPDATE ON public.a $row('a', 'id');", 'DROP TRIGGER emptied ON public.a;',
	"DROP TRIGGER naked ON public.a; $again naked AFTER INSERT ON public.a $row(<aggregate type>, <key column>);",
	"DROP TRIGGER nameless ON public.a; $again nameless AFTER INSERT ON public.a $row(<aggregate type>, 'id');",
	"DROP TRIGGER one ON public.a; $again one AFTER INSERT ON public.a $row('a', <key column>);",
	'DROP TRIGGER view ON public.seen;'), 'with what to type');
foreach my $write ('INSERT INTO a VALUES (1)', 'UPDATE a SET id = 2', 'TRUNCATE a', 'INSERT INTO seen VALUES (1)')
{
	my ($code, $out, $err) = $node->psql('postgres', $write);
	like($err, qr/outbox\.emit_row\(\) is not used as it must be/, "it is true: $write");
}
run('DROP TRIGGER nameless ON a; DROP TRIGGER naked ON a; DROP TRIGGER one ON a');
obey();
is(told(), '', 'mended');
run('INSERT INTO a VALUES (1)', ';UPDATE a SET id = 1');
is(emitted('a'), 'the.a.created 1, a.updated 1', 'they emit');
run("ALTER TABLE a DISABLE TRIGGER ALL; CREATE TRIGGER wrong BEFORE INSERT ON a $each('a', 'id'); ALTER TABLE a DISABLE TRIGGER wrong");
unlike(told(), qr/every write/, 'one that is switched off stops nothing');
run('DROP TABLE a CASCADE');

# --- NULL ---
run(qq{CREATE TABLE b (id int PRIMARY KEY, v int); CREATE TRIGGER t $events ON b $each('b', 'id', NULL, 'v');
	CREATE TABLE c (id int PRIMARY KEY); CREATE TRIGGER t $events ON c $each(NULL, 'id')});
my $null = 'was created with NULL as an argument, which is the word null there: its events are null.created, null.updated and null.deleted';
is(told(), "warning: Trigger t on public.b, $calls $null.\nwarning: Trigger t on public.c, $calls $null, of the aggregate type null.", 'NULL is a word there');
run('DROP TABLE c; INSERT INTO b VALUES (1, 1)');
is(emitted('b'), 'null.created 1', 'it is true');
obey();
run('INSERT INTO b VALUES (2, 2)');
is(emitted('b'), 'null.created 1, b.created 2', 'what it says to type mends it');
is(run(q{SELECT convert_from(payload, 'UTF8') FROM outbox_internal.log WHERE aggregate_id = '2'}), '{"id":2}', 'and leaves out what it left out');
is(told(), '', 'nothing more');

# --- twice ---
run(qq{CREATE TABLE parts (id int, kind text) PARTITION BY RANGE (id);
	CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id); CREATE TABLE low_1 PARTITION OF low FOR VALUES FROM (0) TO (10);
	CREATE TRIGGER z_events $events ON parts $each('part', 'id'); CREATE TRIGGER own AFTER INSERT ON low_1 $each('part', 'id', 'part');
	CREATE TRIGGER new $events ON b $each('b', 'id');
	CREATE TABLE fine (id int, kind text); CREATE TRIGGER one AFTER INSERT ON fine $each('fine', 'id'); CREATE TRIGGER two AFTER UPDATE OR DELETE ON fine $each('fine', 'id');
	CREATE TRIGGER three $events ON fine $each('other', 'id'); CREATE TRIGGER four $events ON fine $each('fine', 'kind'); CREATE TRIGGER five $events ON fine $each('fine', 'id', 'x');
	CREATE TRIGGER six AFTER INSERT ON fine FOR EACH ROW WHEN (NEW.kind = 'six') EXECUTE FUNCTION outbox.emit_row('fine', 'id');
	CREATE TRIGGER seven AFTER UPDATE OF kind ON fine $each('fine', 'id')});
is(told(), "warning: Trigger own on public.low_1, $calls emits what trigger z_events on public.parts emits as well: of each change there are two events.\n"
	  . "warning: Trigger t on public.b, $calls emits what trigger new emits as well: of each change there are two events.", 'two that emit the same');
run('INSERT INTO parts VALUES (1)');
is(emitted('part'), 'part.created 1, part.created 1', 'it is true');
obey();
is(told(), '', 'mended');
run('INSERT INTO parts VALUES (2)');
is(emitted('part'), 'part.created 1, part.created 1, part.created 2', 'once');

# --- tables below, by INHERITS ---
run(qq{CREATE TABLE top (id int PRIMARY KEY); CREATE TABLE mid () INHERITS (top); CREATE TABLE leaf () INHERITS (mid);
	CREATE TRIGGER "on" $events ON top FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION outbox.emit_row('top', 'id');
	CREATE TRIGGER "on" AFTER INSERT ON leaf $each('top', 'id')});
is(told(), "ok: Table public.mid inherits from public.top, but not its trigger \"on\", $calls: rows of public.mid emit nothing." =~ s/,:/:/r, 'a table below that has none');
run('INSERT INTO mid VALUES (1); UPDATE top SET id = 2');
is(emitted('top'), '', 'it is true');
obey();
is(told(), '', 'what it says to type gives it one');
run('INSERT INTO mid VALUES (3)');
is(emitted('top'), 'top.created 3', 'it emits');
run(qq{DO \$\$ BEGIN FOR i IN 1 .. 23 LOOP EXECUTE format('CREATE TABLE t%s () INHERITS (top)', i); END LOOP; END \$\$});
is(run(qq{SELECT count(*), max(detail) FILTER (WHERE detail LIKE 'And%') $what}), '21|And there are 3 more such tables.', 'a bounded list');
no_server_crashed($node);
done_testing();
