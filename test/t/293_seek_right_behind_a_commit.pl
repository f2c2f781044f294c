# seek() to the end right behind a commit: the event is delivered, is told as delivered, and is none that was passed over.
# Of a route that stands still it is one, and that is said at once.
# matrix: S5
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node();
sub sql { return $node->safe_psql('postgres', @_) }
sql(q(CREATE SERVER one FOREIGN DATA WRAPPER outbox_null; ALTER SYSTEM SET outbox.lone_emit = allow; SELECT pg_reload_conf()));
sql(q(SELECT outbox.create_route('r', server => 'one', lanes => 2)));
sql(q(SELECT outbox.emit('t', 'k', 'e', '{}')));
ok(wait_idle($node), 'the route works');

sub emit_and_move
{
	my @ids = split /\n/, $node->safe_psql('postgres', q(
		SELECT outbox.emit('t', 'k', 'e', '{}');
		CALL outbox.seek('r', 'infinity', dry_run => false);));
	return $ids[0];
}
my @ids = map { emit_and_move() } 1 .. 12;
# A lane has a second; without that all twelve were passed over. A machine that stands still for longer is no fault of a lane.
my $over = sql(q(SELECT sum((detail ->> 'passed_over')::int) FROM outbox.audit WHERE action = 'seek'));
cmp_ok($over, '<=', 1, "none was passed over: $over");
my $ids = join ',', @ids;
is(sql("SELECT count(*) FILTER (WHERE s.state = 'delivered') || ' ' || count(*) FILTER (WHERE s.state = 'passed over') FROM unnest('{$ids}'::uuid[]) i, outbox.status(i) s"),
	(12 - $over) . " $over", 'as status() says of each');

sql(q(SELECT outbox.pause('r', reason => 'test')));
ok(wait_for_value($node, q(SELECT bool_and(state = 'paused') FROM outbox.lag WHERE route = 'r'), 't', 30), 'paused');
my $began = time;
my $id = emit_and_move();
cmp_ok(time - $began, '<', 0.9, 'nothing is waited for');
is(sql(q(SELECT detail ->> 'passed_over' FROM outbox.audit WHERE action = 'seek' ORDER BY at DESC LIMIT 1)), '1', 'it is passed over');
is(sql(qq(SELECT state FROM outbox.status('$id'))), 'passed over', 'and told so');
no_server_crashed($node);
done_testing();
