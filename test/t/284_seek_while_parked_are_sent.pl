# matrix: S6
# A route is moved by seek() while parked events of it are in flight: their outcome counts, and none is sent twice for the
# move; of two routes of one worker as of one, moved once or twice in a row, with events that are replayed or were due, and
# with an answer that comes late. One whose answer comes after the lane was given up is sent again, and nothing stands still.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
my @routes = qw(r s);
redis_route($node, $redis, $_, topic => "'to-$_'", start => q('earliest')) foreach @routes;

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
# How often each event has come to a route's stream: "3" where all have come three times.
sub times_of
{
	my ($route) = @_;
	my %count;
	$count{ $_->{payload} }++ foreach @{ $redis->entries("to-$route") };
	my %different = map { $_ => 1 } values %count;
	return join ' ', sort keys %different;
}
sub comes { my ($route, $count, $what) = @_; return ok(wait_until(sub { $redis->xlen("to-$route") >= $count }, 30), $what) }

my $events = 60;
emit_counted($node, 'one', [qw(a b c)], 1, $events / 3);
ok(wait_idle($node), 'all delivered');
is(times_of($_), '1', "$_: once") foreach @routes;

# What is in flight, written and not answered, when the routes are moved.
sub moved_in_flight
{
	my ($what, $routes, $seeks, $late) = @_;
	my $before = Outbox::Faults::hits('sink.results.before');
	# Of each route: "wait" alone holds the first sink process that comes, and the other's lane would have nothing in flight.
	Outbox::Faults::arm('sink.results.before', 'wait *');
	sql("CALL outbox.replay(since => '-infinity', route => '$_', reason => 'again', dry_run => false)") foreach @$routes;
	ok(wait_until(sub { Outbox::Faults::hits('sink.results.before') >= $before + @$routes }, 30), "$what: replayed events are in flight");
	# By one session: a lane waits for five seconds for what is in flight.
	sql(join ' ', map { ("CALL outbox.seek('$_', '-infinity', reason => 'again', dry_run => false);") x $seeks } @$routes);
	sleep $late if $late;
	Outbox::Faults::release('sink.results.before');
	return;
}

moved_in_flight('one route', ['r'], 1);
comes('r', 3 * $events, 'all comes again');
ok(wait_idle($node), 'idle');
is(times_of('r'), '3', 'each three times: at first, replayed, and after the move');
is(times_of('s'), '1', 'the other route has nothing to do with it');

moved_in_flight('two routes', \@routes, 1);
comes('r', 5 * $events, 'all comes again');
comes('s', 3 * $events, 'all of the other, too');
ok(wait_idle($node), 'idle');
is(times_of('r'), '5', 'each twice more');
is(times_of('s'), '3', 'the same of the other');

moved_in_flight('moved twice in a row', \@routes, 2);
comes($_, ($_ eq 'r' ? 7 : 5) * $events, "$_: all comes again") foreach @routes;
ok(wait_idle($node), 'idle');
is(times_of('r'), '7', 'each twice more: neither move had begun before the other');
is(times_of('s'), '5', 'the same of the other');

# Lanes are given up after five seconds: an answer that comes then is of nobody.
moved_in_flight('answered late', ['s'], 1, 7);
comes('s', 7 * $events, 'all comes again');
ok(wait_idle($node), 'idle');
like(times_of('s'), qr/^7( 8)?( 9)?$/, 'at least twice more, and some once more for the answer that was not awaited');
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing is left parked');

# What is emitted from now on goes at once: no lane is without a worker.
emit_counted($node, 'two', ['a'], 999, 999);
ok(wait_idle($node), 'idle');
is(sql('SELECT count(*) FROM outbox_internal.lane WHERE owner IS NULL'), '0', 'every lane has a worker');
is($redis->entries("to-$_")->[-1]{payload}, 'a 999', "$_: what is new comes last") foreach @routes;
# Moved behind everything: nobody who counts what waits has to look through all of the log, also while nothing else is committed.
sql("CALL outbox.seek('r', 'infinity', reason => 'enough', dry_run => false)");
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.lane_position WHERE window_to IS NOT NULL', '0', 10), 'where it has come to is saved soon');
no_server_crashed($node);
done_testing();
