# The versions of a row in the order in which it had them: emit_row() behind another trigger that changes the same row emits the newer
# one first, as PostgreSQL fires triggers by name. doctor() tells of it, with what to type, and of nothing else.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { return $node->safe_psql('postgres', 'SET outbox.lone_emit = allow;' . join '', @_) }
my $told = q{SELECT detail, hint FROM outbox.doctor() WHERE "check" = 'triggers' AND status = 'warning' ORDER BY detail};
sub told { return sql($told) }
# What the events of one table say, in their order.
sub emits {
	my ($type, $what, $statement) = @_;
	my $at = sql(q{SELECT coalesce(max(created_at), '-infinity') FROM outbox_internal.log});
	sql($statement);
	return sql(qq{SELECT string_agg(substr(event_type, length('$type') + 2) || ' ' || coalesce(convert_from(payload, 'UTF8')::json ->> '$what', 'null'), ', ' ORDER BY created_at)
		FROM outbox_internal.log WHERE created_at > '$at' AND aggregate_type = '$type'});
}
my $function = q{RETURNS trigger LANGUAGE plpgsql AS};
my $events = 'AFTER INSERT OR UPDATE OR DELETE';
sql(qq{
	CREATE TABLE orders (id int PRIMARY KEY, amount int, price int, total int);
	CREATE TRIGGER "Orders' events" $events ON orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'id');
	CREATE FUNCTION compute() $function \$\$ BEGIN
		UPDATE orders SET total = amount * price WHERE id = new.id AND total IS DISTINCT FROM amount * price;
		RETURN NULL;
	END \$\$;
	CREATE FUNCTION nothing() $function 'BEGIN RETURN coalesce(new, old); END'});
is(told(), '', 'emit_row alone');
sql(q{CREATE TRIGGER "Compute" AFTER INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION compute()});
is(emits('order', 'total', 'INSERT INTO orders VALUES (1, 2, 10)'), 'updated 20, created null', 'behind another trigger the newer version comes first');
like(told(), qr/^Trigger "Orders' events" on (public\.)?orders, which calls outbox\.emit_row\(\), fires after "Compute": .*\|ALTER TRIGGER "Orders' events" ON (public\.)?orders RENAME TO "00_Orders' events"; /, 'which doctor() says');
is(sql(q{SELECT outbox.doctor_ok()}), 'f', 'and all is not well');
my $type = q{SELECT regexp_replace(hint, ';[^;]*$', ';') FROM outbox.doctor() WHERE "check" = 'triggers' AND status = 'warning'};
sql(sql($type));
is(told(), '', 'after what it says to type it is silent');
is(emits('order', 'total', 'INSERT INTO orders VALUES (2, 2, 10)'), 'created null, updated 20', 'and the newer version comes last');

# names that come before, and one that is taken
sql(qq{
	ALTER TRIGGER "Compute" ON orders RENAME TO "!0";
	CREATE TRIGGER "00_00_Orders' events" BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION nothing();
	CREATE TABLE shadow (LIKE orders);
	CREATE TRIGGER events AFTER UPDATE ON shadow FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('shadow', 'id');
	CREATE TRIGGER more AFTER UPDATE ON shadow FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('more', 'id');
	CREATE TRIGGER "00_" AFTER UPDATE ON shadow FOR EACH ROW EXECUTE FUNCTION nothing();
	CREATE TRIGGER "00_events" BEFORE UPDATE ON shadow FOR EACH ROW EXECUTE FUNCTION nothing()});
like(told(), qr/fires after "!0": .*\|Rename trigger "00_Orders' events" so that its name comes first\. .*\n.*"?events, more on (public\.)?shadow, .*fires after "00_": .*\|ALTER TRIGGER events ON (public\.)?shadow RENAME TO "!00_events"; ALTER TRIGGER more ON (public\.)?shadow RENAME TO "!00_more"; /,
	'names that are taken, and a row for a table');
sql(q{DROP TABLE orders, shadow});
is(told(), '', 'gone with their tables');

# what fires first and is no trap
sql(qq{
	CREATE TABLE quiet (id int PRIMARY KEY, boss int REFERENCES quiet ON UPDATE CASCADE, n int);
	CREATE TRIGGER events $events ON quiet FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('quiet', 'n');
	CREATE TRIGGER before_row BEFORE INSERT OR UPDATE ON quiet FOR EACH ROW EXECUTE FUNCTION nothing();
	CREATE FUNCTION looks() $function 'BEGIN RETURN NULL; END' STABLE;
	CREATE TRIGGER a_look $events ON quiet FOR EACH ROW EXECUTE FUNCTION looks();
	CREATE TRIGGER a_statement AFTER INSERT OR UPDATE ON quiet EXECUTE FUNCTION nothing();
	CREATE TRIGGER another $events ON quiet FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('other', 'id');
	CREATE TRIGGER disabled $events ON quiet FOR EACH ROW EXECUTE FUNCTION nothing();
	ALTER TABLE quiet DISABLE TRIGGER disabled;
	CREATE TRIGGER applied $events ON quiet FOR EACH ROW EXECUTE FUNCTION nothing();
	ALTER TABLE quiet ENABLE REPLICA TRIGGER applied;
	CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT OR UPDATE ON quiet DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION nothing();
	CREATE TRIGGER later $events ON quiet FOR EACH ROW EXECUTE FUNCTION nothing();
	CREATE TABLE once (id int);
	CREATE TRIGGER events AFTER INSERT ON once FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('once', 'id');
	CREATE TRIGGER count AFTER INSERT ON once FOR EACH ROW EXECUTE FUNCTION nothing();
	CREATE TABLE deferred (id int, total int);
	CREATE CONSTRAINT TRIGGER events AFTER INSERT OR UPDATE ON deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('deferred', 'id');
	CREATE FUNCTION raise_total() $function \$\$ BEGIN
		UPDATE deferred SET total = 1 WHERE id = new.id AND total IS NULL;
		RETURN NULL;
	END \$\$;
	CREATE TRIGGER compute AFTER INSERT ON deferred FOR EACH ROW EXECUTE FUNCTION raise_total()});
is(told(), '', 'no word of triggers that fire on something else, at another time, or not at all, or that can change nothing, nor of foreign keys');
sql(q{INSERT INTO quiet VALUES (1, 1, 7)});
is(emits('quiet', 'boss', 'UPDATE quiet SET id = 2'), 'updated 1, updated 2', 'what a foreign key changes comes behind');
is(emits('deferred', 'total', 'INSERT INTO deferred VALUES (1)'), 'created null, updated 1', 'a trigger that fires at commit has the order of the changes');

# partitions: their own triggers, those of their parents, and the name that is changed is the parents'
sql(qq{
	CREATE TABLE parts (id int, n int) PARTITION BY RANGE (id);
	CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);
	CREATE TABLE low_1 PARTITION OF low FOR VALUES FROM (0) TO (5);
	CREATE TABLE low_2 PARTITION OF low FOR VALUES FROM (5) TO (10);
	CREATE TRIGGER events $events ON parts FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('part', 'id');
	CREATE TRIGGER "00_own" $events ON low_1 FOR EACH ROW EXECUTE FUNCTION nothing();
	CREATE TRIGGER all_parts $events ON parts FOR EACH ROW EXECUTE FUNCTION nothing();
	CREATE TRIGGER "00_events" $events ON low_2 FOR EACH ROW EXECUTE FUNCTION nothing()});
like(told(), qr/^Trigger events on (public\.)?parts, .* fires after "00_events", "00_own", all_parts: .*\|ALTER TRIGGER events ON (public\.)?parts RENAME TO "!00_events";[^\n]*$/, 'one row for all partitions');
sql(sql($type));
is(told(), '', 'and one ALTER TRIGGER');
sql(q{DROP TABLE parts});

# very many
sql(qq{DO \$\$ BEGIN
	FOR i IN 1 .. 23 LOOP
		EXECUTE format('CREATE TABLE t%s (id int)', i);
		EXECUTE format('CREATE TRIGGER events $events ON t%s FOR EACH ROW EXECUTE FUNCTION outbox.emit_row(%L, %L)', i, 'many', 'id');
		EXECUTE format('CREATE TRIGGER audit $events ON t%s FOR EACH ROW EXECUTE FUNCTION nothing()', i);
	END LOOP;
END \$\$});
is(sql(q{SELECT count(*), max(detail) FILTER (WHERE detail LIKE 'And%') FROM outbox.doctor() WHERE "check" = 'triggers' AND status = 'warning'}), '21|And there are 3 more such tables.', 'a bounded list');
no_server_crashed($node);
done_testing();
