# A rewind sends again what is lost, and little else: not what came by the lane while a topic of it was in trouble and by
# itself, be that back since or in trouble still; not what is due and was never delivered twice. What a lane has had
# acknowledged just when its Redis went, and not yet noted, is not taken for delivered.
# matrix: E-5
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my %redis;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub start
{
	my ($name) = @_;
	$redis{$name} = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
	redis_route($node, $redis{$name}, $name, aggregate_types => "'{$name.*}'", topic => q('{aggregate_type}'));
	return;
}
# $stream is of server $name.
sub emit
{
	my ($stream, $from, $to, $due) = @_;
	my $late = $due ? ", deliver_at => clock_timestamp() + interval '$due s'" : '';
	sql("SELECT count(outbox.emit_text('$stream', 'k', 'x', 'k ' || i$late)) FROM generate_series($from, $to) i");
	return;
}
sub server { my ($stream) = @_; return $redis{ $stream =~ s/\..*//r } }
sub there { my ($stream) = @_; return by_key([ map { $_->{payload} } @{ server($stream)->entries($stream) } ])->{k} // '' }
sub arrived
{
	my ($stream, $count, $what) = @_;
	return ok(wait_until(sub { server($stream)->command('TYPE', $stream) eq 'stream' && server($stream)->xlen($stream) >= $count }, 60), "$stream: $what")
	  || diag(there($stream));
}
sub noted { my ($name) = @_; return wait_for_value($node, "SELECT count(*) FROM outbox.lag WHERE route = '$name' AND side IS NULL AND inflight > 0", 0, 30) }
sub rewinds { my ($name) = @_; return sql("SELECT count(*) FROM outbox.audit WHERE action = 'rewind' AND route = '$name'") }
sub lose { my ($name) = @_; $redis{$name}->kill9; $redis{$name}->restart; return }
sub sides { my ($name) = @_; return sql("SELECT count(*) FROM outbox_internal.side_lane s JOIN outbox.route r ON r.id = s.route_id WHERE r.name = '$name'") }

start($_) foreach qw(back ill due race);
# Acknowledged, and not noted when its Redis is another.
emit('race.x', 1, 5);
arrived('race.x', 5, 'the first');
$redis{race}->command('SAVE');
Outbox::Faults::arm('parked.settle.before', 'wait');
emit('race.x', 6, 6, 1);
ok(Outbox::Faults::await_waiting('parked.settle.before'), 'acknowledged, and not noted yet');
is($redis{race}->xlen('race.x'), 6, 'it is there');
lose('race');
Outbox::Faults::release('parked.settle.before');
arrived('race.x', 6, 'comes again');
is(there('race.x'), '1 2 3 4 5 6', 'each once');

# A topic in trouble for a while, beside one that is well.
foreach my $name (qw(back ill))
{
	$redis{$name}->command('SET', "$name.bad", 'no stream');
	emit("$name.bad", 1, 5);
	emit("$name.well", 1, 5);
}
emit('due.x', 1, 5);
ok(wait_until(sub { sides($_) == 1 }, 30), "$_: a topic is away") foreach qw(back ill);
arrived($_, 5, 'the first') foreach qw(back.well ill.well due.x);
foreach my $round (1 .. 10)
{
	emit($_, 5 + $round * 20 - 19, 5 + $round * 20) foreach qw(back.well ill.well);
	arrived($_, 5 + $round * 20, "round $round") foreach qw(back.well ill.well);
}
noted($_) foreach qw(back ill);
# Of `back` what the topic delivers is all that is lost; of `ill` the last event of the other one.
$redis{$_}->command('SAVE') foreach qw(ill due);
$redis{back}->command('DEL', 'back.bad');
$redis{back}->command('SAVE');
arrived('back.bad', 5, 'when it is well its events come');
ok(wait_until(sub { sides('back') == 0 }, 60), 'and it comes back to its lane');
noted('back');
emit('ill.well', 206, 206);
arrived('ill.well', 206, 'one more');
noted('ill');

# Due, and not delivered: their Redis is away. One event was delivered, and is lost.
emit('due.x', 6, 8, 2);
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'scheduled'}, 3, 30), 'scheduled');
$redis{due}->command('SAVE');
emit('due.x', 9, 9);
arrived('due.x', 6, 'one that is not delayed');
noted('due');
$redis{due}->kill9;
ok(wait_for_value($node, q{SELECT bool_and(due_at < now()) FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE r.name = 'due'}, 't', 30), 'due');

lose($_) foreach qw(back ill);
$redis{due}->restart;

arrived('due.x', 9, 'all arrive');
ok(wait_until(sub { rewinds('back') && rewinds('ill') && rewinds('due') }, 30), 'what was lost is noticed');
arrived('back.bad', 5, 'comes again');
arrived('ill.well', 206, 'comes again');
ok(wait_until(sub { sides('back') == 0 }, 60), 'all is with its lane again');
is(there('back.bad'), '1 2 3 4 5', 'back.bad: each once');
is(there('back.well'), join(' ', 1 .. 205), 'back.well: nothing of what was not lost comes again');
my $ill = $redis{ill}->xlen('ill.well');
cmp_ok($ill, '<=', 206 + 25, 'ill.well: little more than what was lost comes again');
is(sides('ill'), 1, 'the topic in trouble is where it was');
my @due = split / /, there('due.x');
is_deeply([ sort { $a <=> $b } @due ], [ 1 .. 9 ], 'due.x: what was due, and never delivered, comes once');
$redis{ill}->command('DEL', 'ill.bad');
arrived('ill.bad', 5, 'and its events come when it is well');
is(there('ill.bad'), '1 2 3 4 5', 'each once');
ok(wait_until(sub { sides('ill') == 0 }, 60), 'it comes back');

# A second loss, of what was sent again.
lose('back');
arrived('back.bad', 5, 'comes again, too');
ok(wait_until(sub { sides('back') == 0 }, 60), 'all is with its lane again');
is(there('back.bad'), '1 2 3 4 5', 'back.bad: each once');
is(there('back.well'), join(' ', 1 .. 205), 'back.well: nothing');
no_server_crashed($node);
done_testing();
