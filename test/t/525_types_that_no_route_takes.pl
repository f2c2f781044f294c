# Events whose types no route takes wait nowhere, and nothing of them is late: doctor() names the types, and says what to type. Others of the
# check are not concerned: what nobody is to have may be emitted.
# matrix: M9
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "fsync = on\n"); # doctor() has nothing else to say then
my $told = q(SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'unrouted');
sub sql { my ($query) = @_; return $node->safe_psql('postgres', "SET outbox.lone_emit = allow; SET client_min_messages = error; $query") }
sub emit { my ($aggregate_type, $event_type, $count) = @_; return sql('SELECT count(outbox.emit(' . sql_literal($aggregate_type) . ", i::text, '$event_type', '{}')) FROM generate_series(1, " . ($count // 1) . ') i') }

emit('order', 'order.created');
is(sql($told), '', 'without a route another check tells of it');
sql(q(CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('orders', server => 'nowhere', aggregate_types => '{order}', event_types => '{order.*}'),
	outbox.create_route('bills', server => 'nowhere', aggregate_types => '{bill*}')));
emit('order', 'order.created', 3);
emit('billing', 'sent');
sql(q(BEGIN; SELECT outbox.emit('undone', '1', 'x', '{}'); ROLLBACK));
is(sql($told), '', 'all that is there is taken');

emit('Order', 'order.created', 2);
emit('order', 'shipped');
like(sql($told), qr/^ok\|No route takes 3 of the newest 8 events of the last hour: aggregate type "Order", event type "shipped" of "order"\.\|If somebody is to have them: SELECT outbox\.alter_route\('bills', aggregate_types => '\{bill\*,Order\}'\) has that route take them/,
	'what no route takes is named, with what to type');
ok(wait_for_value($node, 'SELECT outbox.doctor_ok()', 't', 60), 'and nothing is wrong') or diag sql(q(SELECT * FROM outbox.doctor() WHERE status <> 'ok'));
is(sql('SET ROLE pg_monitor; ' . ($told =~ s/status, detail, hint/count(*)/r)), '1', 'who may look is told as well');

emit(q(o'r"d,er), 'e');
emit("type$_", 'e') foreach 1 .. 3;
like(sql($told), qr/: aggregate type "Order", aggregate type "o'r"d,er", aggregate type "type1", \.\.\.\.\|/, 'of many types some are named');
my $typed = 0;
while (sql($told) =~ /(SELECT outbox\.alter_route\(.*?\)) has that route take/ && $typed++ < 10)
{
	sql($1);
}
is($typed, 6, 'what it says, typed once for each');
is(sql($told), '', 'is all');

# A day has millions: it is the newest that are looked at.
emit('lost', 'e');
like(sql($told), qr/aggregate type "lost"/, 'one among the newest');
emit('order', 'order.created', 20000);
is(sql($told), '', 'and not all of the log');
no_server_crashed($node);
done_testing();
