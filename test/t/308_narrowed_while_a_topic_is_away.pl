# A topic is away, the route is narrowed past it and widened again: of what was never sent status() does not say that it was
# delivered, nor wait_for(). Of what was, it says so still.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', @_) }
sub emit { my ($type, $n) = @_; return sql("SELECT outbox.emit('$type', 'k', 'e', '{\"n\": $n}')") }
sub state_of { my ($id) = @_; return sql("SELECT state FROM outbox.status('$id')") }
sub came { my ($topic, $n) = @_; return scalar grep { ($_->{payload} // '') =~ /"n": ?$n\}/ } @{ $redis->entries($topic) } }
sub away { my ($count) = @_; return wait_for_value($node, 'SELECT count(*) FROM outbox_internal.side_lane', $count, 60) }

redis_route($node, $redis, 'r', lanes => 1);
my $before = emit('c', 0);
ok(wait_for_value($node, "SELECT outbox.wait_for('$before')", 't', 60) && came('outbox.event.c', 0), 'the route works');
my $other = emit('a', 1);
ok(wait_idle($node), 'idle');
my $n = 1;
my (@lasts, @never);
foreach my $how ('in trouble', 'in trouble, and more of it behind', 'paused')
{
	$redis->command('RENAME', 'outbox.event.c', 'kept');
	$redis->command('SET', 'outbox.event.c', 'x') if $how =~ /trouble/;
	sql(q(SELECT outbox.pause('r', topic => 'outbox.event.c', reason => 'test'))) if $how eq 'paused';
	ok(away(1), "$how: the topic is away") if $how eq 'paused';
	my @ids = (emit('c', ++$n));
	ok(away(1), "$how: the topic is away");
	push @ids, map { emit('c', ++$n) } 1 .. 3 if $how =~ /more/;
	my $meanwhile = emit('a', ++$n);
	ok(wait_for_value($node, "SELECT outbox.wait_for('$meanwhile')", 't', 60), 'another one goes');
	is(join(' ', map { state_of($_) } @ids), join(' ', ($how eq 'paused' ? 'paused' : 'pending') x @ids), 'it waits');
	sql(q(SELECT outbox.alter_route('r', aggregate_types => '{a}')));
	is(state_of($ids[0]), 'not routed', 'the route is narrowed');
	$how eq 'paused' ? sql(q(SELECT outbox.resume('r', topic => 'outbox.event.c'))) : away(0);
	ok(away(0), 'nothing is away any more');
	sql(q(SELECT outbox.alter_route('r', aggregate_types => '{*}')));
	$redis->command('DEL', 'outbox.event.c');
	my $last = emit('c', ++$n);
	ok(wait_for_value($node, "SELECT outbox.wait_for('$last')", 't', 60), 'widened, it goes on');
	is(join(' ', map { state_of($_) } @ids), join(' ', ('not known') x @ids), 'of what was passed it is not known');
	is(sql("SELECT outbox.wait_for('$ids[0]', '1 s') IS NULL"), 't', 'nor to wait_for()');
	is(state_of($last), 'delivered', 'what came after is delivered');
	is(state_of($meanwhile), 'delivered', 'and so is what the route wanted all the time');
	is(state_of($before), 'delivered', 'what was delivered before stays so');
	push @lasts, $last;
	is(join(' ', map { state_of($_) } @lasts), join(' ', ('delivered') x @lasts), 'and what was after an earlier time away');
	push @never, @ids;
	$redis->command('DEL', 'outbox.event.c');
	$redis->command('RENAME', 'kept', 'outbox.event.c');
}
my %came = map { $_->{id} => 1 } map { @{ $redis->entries($_) } } 'outbox.event.a', 'outbox.event.c';
is(scalar(grep { $came{$_} } @never), 0, 'none of these ever came');
is(state_of($other), 'delivered', 'of another topic, too');

# Delivered by the side lane before the route was narrowed.
$redis->command('RENAME', 'outbox.event.c', 'kept');
$redis->command('SET', 'outbox.event.c', 'x');
my $sent = emit('c', ++$n);
ok(away(1), 'away');
$redis->command('DEL', 'outbox.event.c');
ok(wait_idle($node, 60) && came('outbox.event.c', $n), 'it is sent');
sql(q(SELECT outbox.alter_route('r', aggregate_types => '{a}')));
sql(q(SELECT outbox.alter_route('r', aggregate_types => '{*}')));
is(state_of($sent), 'delivered', 'what a side lane has sent is delivered');
no_server_crashed($node);
$node->stop;
done_testing();
