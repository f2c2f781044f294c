# A route is moved by seek() while a worker that has just claimed its lane knows where that stands, and not yet which topics have left it:
# a topic that then leaves the lane does not take the old position along. What seek() said comes comes, what it passed over does not,
# also when it is moved back and forth.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
my @keys = qw(a b);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub comes { my ($stream, $count, $what) = @_; return ok(wait_until(sub { $redis->xlen($stream) >= $count }, 60), $what) }
# A route whose lane is claimed with a topic that has to leave it, moved by these while its worker waits between the two.
sub moved_in_between
{
	my ($route, $start, @moves) = @_;
	Outbox::Faults::arm('sides.load', 'wait');
	sql(qq(BEGIN; SELECT outbox.create_route('$route', server => 'r', topic => '$route.{aggregate_type}', start => '$start');
		SELECT outbox.pause('$route', topic => '$route.two', reason => 'leaves its lane'); COMMIT));
	ok(Outbox::Faults::await_waiting('sides.load'), "$route: its lane is claimed");
	sql("CALL outbox.seek('$route', '$_', reason => 'test', dry_run => false)") foreach @moves;
	# Its worker is told, and cannot read that for a while.
	my $person = $node->background_psql('postgres', timeout => 600);
	$person->query_safe('BEGIN; LOCK TABLE outbox.pause IN ACCESS EXCLUSIVE MODE');
	Outbox::Faults::release('sides.load');
	ok(wait_for_value($node, "SELECT count(*) FROM outbox_internal.side_topic t JOIN outbox.route r ON r.id = t.route_id WHERE r.name = '$route'", '1', 30),
		"$route: a topic leaves it");
	$person->query_safe('COMMIT');
	$person->quit;
	return;
}

redis_route($node, $redis, 'r', topic => q('{aggregate_type}'), start => q('earliest'));
emit_counted($node, $_, \@keys, 1, 10) foreach qw(one two);
ok(wait_idle($node), 'all delivered');
is($redis->xlen($_), 20, "$_: to another route") foreach qw(one two);

# Back, from a position behind all of it.
moved_in_between('back', 'now', '-infinity');
comes('back.one', 20, 'back: what is older than the route comes');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox_internal.side_topic t JOIN outbox.route r ON r.id = t.route_id WHERE r.name = 'back'), '1', 60),
	'back: the paused topic has left');
is($redis->xlen('back.two'), 0, 'back: and waits');
sql(q(SELECT outbox.resume('back', topic => 'back.two')));
comes('back.two', 20, 'back: it comes when it is resumed');
ok(wait_idle($node), 'idle');
is($redis->xlen("back.$_"), 20, "back: $_: each came once") foreach qw(one two);
is_deeply(by_key([ map { $_->{payload} } @{ $redis->entries('back.two') } ]), { map { ($_ => join ' ', map { $_ } 1 .. 10) } @keys }, 'back: in order');

# On, from the beginning.
moved_in_between('on', 'earliest', 'infinity');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox_internal.side_topic t JOIN outbox.route r ON r.id = t.route_id WHERE r.name = 'on'), '1', 60),
	'on: the paused topic has left');
emit_counted($node, $_, \@keys, 11, 12) foreach qw(one two);
sql(q(SELECT outbox.resume('on', topic => 'on.two')));
ok(wait_idle($node), 'idle');
is($redis->xlen("on.$_"), 4, "on: $_: what was passed over does not come") foreach qw(one two);

# Back and forth, and back again.
moved_in_between('twice', 'now', '-infinity', 'infinity', '-infinity');
comes('twice.one', 24, 'twice: all comes');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox_internal.side_topic t JOIN outbox.route r ON r.id = t.route_id WHERE r.name = 'twice'), '1', 60),
	'twice: the paused topic has left');
sql(q(SELECT outbox.resume('twice', topic => 'twice.two')));
comes('twice.two', 24, 'twice: and comes when it is resumed');
ok(wait_idle($node), 'idle');
is($redis->xlen("twice.$_"), 24, "twice: $_: each came once") foreach qw(one two);

no_server_crashed($node);
$node->stop;
done_testing();
