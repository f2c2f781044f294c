# An emit costs the same beside ten thousand registered schemas as beside none, whether its type has one or not; and each event is
# held to its own one, as it is now.
# matrix: H10
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
sub sql { return $node->safe_psql('postgres', @_) }
sub emit { my ($type, $event, $payload) = @_; my ($code, $out, $err) = $node->psql('postgres', "SELECT outbox.emit('$type', 'k', '$event', '$payload'::jsonb)"); return $code == 0 ? 'taken' : $err =~ /does not match the schema of event "$event" of "$type"/ ? 'refused' : $err }
my $emits = q(SELECT count(outbox.emit('none', 'k', 'e', '{}'::jsonb)) FROM generate_series(1, 20000));
my $others = q(SELECT count(outbox.emit('s9999', 'k', 'e', '{}'::jsonb)) FROM generate_series(1, 20000));

sql($emits);
my $alone = backend_seconds($node, $emits);
sql(q(SELECT count(*) FROM (SELECT outbox.event_schema('s' || i, 'e', '{"type": "object"}') FROM generate_series(1, 10000) i) s));
my $beside = backend_seconds($node, $emits);
cmp_ok($beside, '<', 3 * $alone + 0.5, "an emit of a type without a schema costs little more: $alone s, $beside s");
my $with = backend_seconds($node, $others);
cmp_ok($with, '<', 10 * $alone + 0.6, "nor does one of a type that has one: $with s");

is(emit('s1', 'e', '{}'), 'taken', 'what matches is taken');
is(emit("s$_", 'e', '1'), 'refused', "schema $_ is asserted") foreach 1, 2, 500, 9999, 10_000;
is(emit('s1', 'f', '1'), 'taken', 'of another event type it is not');
is(emit('s', '1e', '1'), 'taken', 'nor of names that are the same one behind the other');
# In one session, which has read them.
is(sql(q(SELECT outbox.emit('s7', 'k', 'e', '{}'::jsonb) IS NOT NULL; SELECT outbox.drop_event_schema('s7', 'e');
	SELECT outbox.emit('s7', 'k', 'e', '1'::jsonb) IS NOT NULL)) =~ s/\n\w*\n/ /r, 't t', 'one that is dropped is asserted no more');
sql(q(SELECT count(*) FROM (SELECT outbox.drop_event_schema('s' || i, 'e') FROM generate_series(1, 10000) i WHERE i NOT IN (7, 8)) s));
is(emit('s8', 'e', '1'), 'refused', 'the last one holds');
is(emit('s9', 'e', '1'), 'taken', 'and no other');
$node->stop;
done_testing();
