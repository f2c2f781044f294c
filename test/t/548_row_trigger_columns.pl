# A migration drops or renames columns that emit_row() has as arguments: what the error says fits, and doctor() tells of each such trigger
# before anybody writes, with statements that mend it as they stand where the column was dropped.
# matrix: C19
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { return $node->safe_psql('postgres', 'SET outbox.lone_emit = allow;' . join '', @_) }
sub fails { return ($node->psql('postgres', $_[0]))[2] }
my $what = q{FROM outbox.doctor() WHERE "check" = 'triggers' AND status <> 'ok'};
sub told { return sql(qq{SELECT status || ': ' || detail $what ORDER BY detail}) }
sub statements { return sql(qq{SELECT substring(hint FROM 'BEGIN;.*COMMIT;') $what}) }
sub payloads { return sql(qq{SELECT string_agg(aggregate_id || ' ' || convert_from(payload, 'UTF8'), ', ' ORDER BY created_at) FROM outbox_internal.log WHERE aggregate_type = \$\$$_[0]\$\$}) }
my $calls = 'FOR EACH ROW EXECUTE FUNCTION outbox.emit_row';
my $hint = 'HINT:  Drop the trigger and create it again, in one transaction: with the name that the column has now, or without it if it was to be left out and is dropped. outbox.doctor() has the statements.';

# --- one that is left out is dropped ---
sql(qq{
	CREATE SCHEMA "My shop";
	CREATE TABLE "My shop"."Orders" (id int PRIMARY KEY, "der Schlüssel" text, "it's a \\ ""secret""" text, more text);
	CREATE TRIGGER "00's events" AFTER INSERT OR UPDATE OF id OR DELETE ON "My shop"."Orders" $calls(E'o\\\\rd''er', 'id', '', E'it''s a \\\\ "secret"', 'der Schlüssel')});
sql(qq{
	CREATE TABLE "plain" (id int, n int, secret text);
	CREATE TRIGGER events AFTER INSERT ON plain FOR EACH ROW WHEN (new.n <> 7) EXECUTE FUNCTION outbox.emit_row('plain', 'id', 'p', 'secret');
	ALTER TABLE plain ENABLE ALWAYS TRIGGER events});
is(told(), '', 'nothing to tell while the columns are there');
sql(q{ALTER TABLE "My shop"."Orders" DROP COLUMN "it's a \\ ""secret"""});
my $error = fails(q{INSERT INTO "My shop"."Orders" VALUES (1, 's', 'm')});
like($error, qr/ERROR:  column "it's a \\ "secret"" of table "Orders" does not exist/, 'writes fail');
like($error, qr/^\Q$hint\E$/m, 'and the hint fits');
is(told(), q{problem: Trigger "00's events" on "My shop"."Orders", which calls outbox.emit_row(), names what is no column there, "it's a \ "secret"": every write that fires it fails.}, 'which doctor() says');
like(sql("SELECT hint $what"), qr/^If it was dropped: BEGIN; DROP TRIGGER .* COMMIT; A column to leave out that has another name now stands there by that name, or it is published\.$/, 'and what to do');
is(statements(), q{BEGIN; DROP TRIGGER "00's events" ON "My shop"."Orders"; CREATE TRIGGER "00's events" AFTER INSERT OR DELETE OR UPDATE OF id ON "My shop"."Orders" FOR EACH ROW}
	. q{ EXECUTE FUNCTION outbox.emit_row(E'o\\\\rd''er', 'id', '', 'der Schlüssel'); COMMIT;}, 'to the letter');
sql(statements());
is(told(), '', 'which mends it');
sql(q{INSERT INTO "My shop"."Orders" VALUES (1, 's', 'm')});
is(payloads(q{o\rd'er}), '1 {"id":1,"more":"m"}', 'it emits, without what is to be left out');

# --- one that fires ALWAYS, under a condition ---
sql('ALTER TABLE plain DROP COLUMN secret');
is(statements(), q{BEGIN; DROP TRIGGER events ON public.plain; CREATE TRIGGER events AFTER INSERT ON public.plain FOR EACH ROW WHEN ((new.n <> 7))}
	. q{ EXECUTE FUNCTION outbox.emit_row('plain', 'id', 'p'); ALTER TABLE public.plain ENABLE ALWAYS TRIGGER events; COMMIT;}, 'condition and state stay');
sql(statements());
is(sql(q{SELECT tgenabled FROM pg_trigger WHERE tgname = 'events'}), 'A', 'they do');

# --- the key column is renamed; a system column is none; what is switched off fails nothing ---
sql('ALTER TABLE plain RENAME COLUMN id TO "Id"');
$error = fails('INSERT INTO plain VALUES (1, 1)');
like($error, qr/ERROR:  column "id" of table "plain" does not exist.*^\Q$hint\E$/ms, 'the key column');
like(sql("SELECT hint $what"), qr/^With the key column's name as it is now in place of the old one: BEGIN; .*emit_row\('plain', 'id', 'p'\); /, 'doctor() shows where the new name goes');
sql('ALTER TABLE plain DISABLE TRIGGER events');
like(told(), qr/^warning: Trigger events on public\.plain, .* is switched off[^\n]*$/, 'one that is switched off fails nothing');
sql(qq{DROP TRIGGER events ON plain; CREATE TRIGGER events AFTER INSERT ON plain $calls('plain', 'Id', '', 'ctid')});
like(told(), qr/^problem: .*"ctid": [^\n]*$/, 'a system column is no column there');
sql('DROP TABLE plain');

# --- partitions: the trigger is the parent's ---
sql(qq{
	CREATE TABLE parts (id int, a text, b text) PARTITION BY RANGE (id);
	CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (10);
	CREATE TRIGGER events AFTER INSERT ON parts $calls('part', 'id', '', 'a', 'b');
	ALTER TABLE parts DROP COLUMN a, DROP COLUMN b});
like(fails('INSERT INTO parts VALUES (1)'), qr/column "a" of table "low" does not exist/, 'a partition fails');
is(told(), 'problem: Trigger events on public.parts, which calls outbox.emit_row(), names what is no column there, "a", "b": every write that fires it fails.', 'told of once, with both');
sql(statements(), 'INSERT INTO parts VALUES (1)');
is(payloads('part'), '1 {"id":1}', 'mended');
is(sql('SELECT outbox.doctor_ok()'), sql(q{SELECT NOT EXISTS (SELECT FROM outbox.doctor() WHERE status <> 'ok' AND "check" <> 'triggers')}), 'and nothing is left to tell');
no_server_crashed($node);
done_testing();
