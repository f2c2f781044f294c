# A topic is paused by the name that events are sent under, also while the lanes of its route tell readers apart by a topic template
# that it had before: because another topic was paused when the template was changed, or was in trouble and is mended by the change.
# matrix: S3
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', aggregate_types => q('{a,b,c}'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub emit { my ($type, $n, $topic) = @_; return sql("SELECT outbox.emit('$type', 'k', 'x', '{\"n\": $n}'" . (defined $topic ? ", topic => '$topic'" : '') . ')') }
sub numbers { my ($stream) = @_; return join ' ', map { $_ =~ /"n": ?(\d+)/ } @{ $redis->column($stream, 'payload') } }
sub arrives { my ($stream, $wanted, $what) = @_; return ok(wait_until(sub { numbers($stream) eq $wanted }, 60), $what) || diag(numbers($stream)) }
# So many events wait in lanes that stand still because of a pause.
sub stand
{
	my ($route, $count, $what) = @_;
	return ok(wait_for_value($node, "SELECT coalesce(sum(pending), 0) FROM outbox.lag WHERE route = '$route' AND state = 'paused'", $count, 90), $what);
}
sub no_sides { return ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.side_lane', '0', 60), $_[0]) }

# Another topic of the route has been paused for long.
sql(q(SELECT outbox.pause('r', topic => 'outbox.event.a', reason => 'long ago')));
emit('a', 1);
stand('r', 1, 'a topic is paused');
sql(q(SELECT outbox.alter_route('r', topic => 'new.{aggregate_type}')));
emit('b', 1);
arrives('new.b', '1', 'another goes under its new name');
sql(q(SELECT outbox.pause('r', topic => 'new.b', reason => 'must stop now')));
my $id = emit('b', 2);
emit('b', 3);
emit('c', 4);
arrives('new.c', '4', 'paused by that name it holds up no third one');
stand('r', 3, 'but its own events');
is(numbers('new.b'), '1', 'none has gone');
is(sql("SELECT state, reason, topic FROM outbox.status('$id')"), 'paused|must stop now|new.b', 'as status() says');
is(sql(q(SELECT string_agg("check", ' ') FROM outbox.doctor() WHERE "check" IN ('topic', 'pause') AND detail ~ '(event|new).b')), 'pause', 'doctor() tells of a pause, and of no trouble');
$node->restart;
emit('b', 5);
emit('c', 6);
arrives('new.c', '4 6', 'after a restart, too');
stand('r', 4, 'nothing of it goes');
is(numbers('new.b'), '1', 'nor has gone');
sql(q(SELECT outbox.resume('r', topic => 'new.b')));
arrives('new.b', '1 2 3 5', 'resumed, all of it goes, in order');
is($redis->xlen('new.a'), 0, 'what was paused under its former name waits on');
sql(q(SELECT outbox.resume('r', topic => 'outbox.event.a')));
arrives('new.a', '1', 'and goes, when that is resumed, under the new one');
no_sides('nothing of the former template is left');
sql(q(SELECT outbox.drop_route('r')));

# All topics become one.
redis_route($node, $redis, 's', aggregate_types => q('{a,b}'));
sql(q(SELECT outbox.pause('s', topic => 'outbox.event.a', reason => 'long ago')));
emit('a', 1);
stand('s', 1, 'a topic of another route is paused');
sql(q(SELECT outbox.alter_route('s', topic => 'one')));
sql(q(SELECT outbox.pause('s', topic => 'one', reason => 'must stop now')));
emit('b', 2);
emit('b', 3, 'own');
emit('b', 4);
arrives('own', '3', 'an event with a topic of its own goes');
stand('s', 3, 'those of the one topic do not');
is($redis->xlen('one'), 0, 'none has gone');
sql(q(SELECT outbox.resume('s', topic => 'outbox.event.a')));
emit('b', 5, 'own');
arrives('own', '3 5', 'nor, when the former name is let go,');
stand('s', 3, 'does anything');
is($redis->xlen('one'), 0, 'go under the present one');
sql(q(SELECT outbox.resume('s', topic => 'one')));
ok(wait_until(sub { $redis->xlen('one') == 3 }, 60), 'resumed, all of it goes');
is(join(' ', grep { $_ > 1 } split / /, numbers('one')), '2 4', 'in order');
no_sides('nothing of the former template is left');
sql(q(SELECT outbox.drop_route('s')));

# A topic in trouble, because its name was a mistake: the right one is paused before the template is mended.
redis_route($node, $redis, 't', aggregate_types => q('{a,b}'), topic => q('typo.{aggregate_type}'));
$redis->command('SET', 'typo.a', 'no stream');
emit('a', $_) foreach 1 .. 3;
ok(wait_for_value($node, q(SELECT error_code FROM outbox_internal.side_topic), 'WRONGTYPE', 60), 'a topic is in trouble');
sql(q(SELECT outbox.pause('t', topic => 'good.a', reason => 'it is made anew')));
sql(q(SELECT outbox.alter_route('t', topic => 'good.{aggregate_type}')));
emit('a', 4);
emit('b', 5);
arrives('good.b', '5', 'under the mended template another goes');
stand('t', 4, 'what was in trouble waits for the pause');
is($redis->xlen('good.a'), 0, 'none of it has gone');
sql(q(SELECT outbox.resume('t', topic => 'good.a')));
arrives('good.a', '1 2 3 4', 'resumed, all of it goes, in order');
no_sides('nothing of the former template is left');
no_server_crashed($node);
done_testing();
