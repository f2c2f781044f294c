# A deferrable emit_row() trigger beside a deferrable one that changes the same row: SET CONSTRAINTS ALL IMMEDIATE has it emit the older
# version last, whatever its name. doctor() tells of it, with what to type, and of no other.
# matrix: C13
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
sub run { return $node->safe_psql('postgres', join '', @_) }
my $what = q{FROM outbox.doctor() WHERE "check" = 'triggers' AND hint IS NOT NULL};
sub told { return run(qq{SELECT status || ': ' || detail $what ORDER BY detail}) }
sub obey { run(run(qq{SELECT regexp_replace(hint, 'COMMIT;.*', 'COMMIT;') $what})); return }
# What the events of one transaction say of the row, in their order.
my $id = 0;
sub emits
{
	my ($table, $end) = @_;
	$id++;
	run("BEGIN; SET CONSTRAINTS ALL DEFERRED; INSERT INTO $table VALUES ($id, 1); UPDATE $table SET n = 2 WHERE id = $id; $end; COMMIT");
	return run(qq{SELECT string_agg(convert_from(payload, 'UTF8')::json ->> 'n', ', ' ORDER BY created_at) FROM outbox_internal.log WHERE aggregate_type = 'r' AND aggregate_id = '$id'});
}
my $now = 'SET CONSTRAINTS ALL IMMEDIATE';
my $emits = q{FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('r', 'id')};
my $calls = 'which calls outbox.emit_row(), is DEFERRABLE, as';
my $said = 'is: of a row that that one changes when SET CONSTRAINTS ... IMMEDIATE fires both the newer version is emitted first, and the older one last.';
run(qq{CREATE FUNCTION add() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
		EXECUTE format('UPDATE %I SET n = n + 10 WHERE id = \$1', replace(TG_TABLE_NAME, 'items', 'r')) USING NEW.id;
		RETURN NULL;
	END \$\$;
	CREATE TABLE r (id int PRIMARY KEY, n int);
	CREATE CONSTRAINT TRIGGER "00_it's" AFTER INSERT OR UPDATE ON r DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.n > 0) EXECUTE FUNCTION outbox.emit_row('r', 'id');
	ALTER TABLE r ENABLE ALWAYS TRIGGER "00_it's"});
is(told(), '', 'alone it is right');
is(emits('r', $now), '1, 2', 'and it is true');

run('CREATE CONSTRAINT TRIGGER total AFTER INSERT ON r DEFERRABLE FOR EACH ROW EXECUTE FUNCTION add()');
is(emits('r', ''), '1, 2, 12', 'beside one that changes the row: at commit the newest comes last');
is(emits('r', $now), '1, 12, 2', 'by SET CONSTRAINTS an older one');
is(told(), qq{warning: Trigger "00_it's" on public.r, $calls total $said}, 'which doctor() says');
obey();
is(told(), '', 'nothing more is told after what it says to type');
is(emits('r', $now), '1, 2, 12', 'and the newest comes last');
is(run(q{SELECT pg_get_triggerdef(oid), tgenabled FROM pg_trigger WHERE tgname = '00_it''s'}), qq{CREATE TRIGGER "00_it's" AFTER INSERT OR UPDATE ON public.r FOR EACH ROW WHEN ((new.n > 0)) EXECUTE FUNCTION outbox.emit_row('r', 'id')|A}, 'it is what it was else');

# What changes nothing, is not called, or emits one event of a row.
run(qq{ALTER TABLE r DISABLE TRIGGER total;
	CREATE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql STABLE AS 'BEGIN RETURN NULL; END';
	CREATE CONSTRAINT TRIGGER looks AFTER INSERT OR UPDATE ON r DEFERRABLE FOR EACH ROW EXECUTE FUNCTION looks();
	CREATE TABLE child (id int PRIMARY KEY, r int REFERENCES r ON UPDATE CASCADE DEFERRABLE);
	CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON r DEFERRABLE $emits;
	CREATE CONSTRAINT TRIGGER added AFTER INSERT ON child DEFERRABLE FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('child', 'id')});
is(told(), '', 'no word of what is no trap');
run('DROP TABLE child; DROP TRIGGER late ON r');

# Of another table; and of partitions.
run(qq{CREATE TABLE items (id int); CREATE CONSTRAINT TRIGGER total AFTER INSERT ON items DEFERRABLE FOR EACH ROW EXECUTE FUNCTION add();
	CREATE TABLE parts (id int, n int) PARTITION BY RANGE (id); CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (10);
	CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE ON parts DEFERRABLE $emits});
is(told(), "ok: Trigger late on public.parts, $calls one of another table $said", 'a note where another table has one');
is(run('SELECT outbox.doctor_ok()'), run(q{SELECT bool_and(status = 'ok') FROM outbox.doctor()}), 'which is no trouble');
run('CREATE CONSTRAINT TRIGGER total AFTER INSERT ON low DEFERRABLE FOR EACH ROW EXECUTE FUNCTION add()');
is(told(), "warning: Trigger late on public.parts, $calls total $said", 'a warning where a partition has');
obey();
is(told(), '', 'mended');
run(qq{DO \$\$ BEGIN FOR i IN 1 .. 23 LOOP
	EXECUTE format('CREATE TABLE t%s (id int)', i);
	EXECUTE format('CREATE CONSTRAINT TRIGGER e AFTER UPDATE ON t%s DEFERRABLE FOR EACH ROW EXECUTE FUNCTION outbox.emit_row(%L, %L)', i, 'r', 'id');
END LOOP; END \$\$});
is(run(qq{SELECT count(*), max(detail) FILTER (WHERE detail LIKE 'And%'), bool_and(status = 'ok') $what}), '21|And there are 3 more such triggers.|t', 'a bounded list');
no_server_crashed($node);
done_testing();
