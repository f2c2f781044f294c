# emit_row() has the values of virtual generated columns, which a trigger's row does not (PostgreSQL 18): in payloads, as the key,
# and not where they are left out.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { return $node->safe_psql('postgres', @_) }
plan skip_all => 'virtual generated columns come with PostgreSQL 18' if sql('SHOW server_version_num') < 180000;
sql(q{
	CREATE TABLE line (id int, gone int, price numeric, amount int, note text, total numeric GENERATED ALWAYS AS (price * amount) VIRTUAL,
		kept numeric GENERATED ALWAYS AS (price + 1) STORED, code text GENERATED ALWAYS AS ('L' || id::text) VIRTUAL, nothing text GENERATED ALWAYS AS (nullif(note, note)) VIRTUAL);
	ALTER TABLE line DROP COLUMN gone;
	ALTER TABLE line ADD COLUMN later text DEFAULT 'd', ADD COLUMN doubled numeric GENERATED ALWAYS AS (amount * 2) VIRTUAL;
	CREATE TRIGGER a_line AFTER INSERT OR UPDATE OR DELETE ON line FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('line', 'code', '', 'later');
	CREATE TABLE parts (id int, half text GENERATED ALWAYS AS (upper(note)) VIRTUAL, note text) PARTITION BY RANGE (id);
	CREATE TABLE parts_one (note text, id int, half text GENERATED ALWAYS AS (lower(note)) VIRTUAL);
	ALTER TABLE parts ATTACH PARTITION parts_one FOR VALUES FROM (0) TO (10);
	CREATE TRIGGER a_part AFTER INSERT ON parts FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('part', 'id')});
my $all = q{SELECT string_agg(event_type || ' ' || aggregate_id || ' ' || convert_from(payload, 'UTF8'), E'\n' ORDER BY created_at) FROM outbox_internal.log};
sub emits { my ($statement) = @_; my $before = sql($all); sql($statement); my $after = sql($all); return substr($after, length $before) =~ s/^\n//r }
is(emits(q{INSERT INTO line VALUES (1, 2.50, 3, 'n')}), q{line.created L1 {"id":1,"price":2.50,"amount":3,"note":"n","total":7.50,"kept":3.50,"code":"L1","nothing":null,"doubled":6}}, 'inserted');
is(emits(q{UPDATE line SET amount = 4}), q{line.updated L1 {"id":1,"price":2.50,"amount":4,"note":"n","total":10.00,"kept":3.50,"code":"L1","nothing":null,"doubled":8}}, 'updated');
is(emits(q{UPDATE line SET id = 2, price = NULL}),
	qq{line.deleted L1 {"id":1,"price":2.50,"amount":4,"note":"n","total":10.00,"kept":3.50,"code":"L1","nothing":null,"doubled":8}\n}
	  . q{line.created L2 {"id":2,"price":null,"amount":4,"note":"n","total":null,"kept":null,"code":"L2","nothing":null,"doubled":8}}, 'under another key');
is(emits(q{DELETE FROM line}), q{line.deleted L2 {"id":2,"price":null,"amount":4,"note":"n","total":null,"kept":null,"code":"L2","nothing":null,"doubled":8}}, 'deleted');
is(emits(q{INSERT INTO parts VALUES (1, DEFAULT, 'Note')}), q{part.created 1 {"note":"Note","id":1,"half":"note"}}, 'a partition computes its own');
no_server_crashed($node);
done_testing();
