# A topic in trouble has left its lane, with some of its events parked, and its side lane has not begun yet: the route is moved on and back,
# once and again, meanwhile and while the side lane waits. All of the topic comes, in the order of each key, and nothing twice.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
my @keys = qw(a b c);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub seek_to { my ($at) = @_; return sql("CALL outbox.seek('r', '$at', reason => 'test', dry_run => false)") }
my $sides = 'SELECT count(*) FROM outbox_internal.side_topic';
# Of a stream: keys whose events arrived in order, each as often as it should.
sub arrived
{
	my ($stream) = @_;
	return by_key([ map { $_->{payload} } @{ $redis->entries($stream) } ]);
}
sub all_to { my ($last) = @_; return { map { ($_ => join ' ', 1 .. $last) } @keys } }

redis_route($node, $redis, 'r', topic => q('{aggregate_type}'), start => q('earliest'));
$redis->command('SET', 'two', 'no stream');
Outbox::Faults::arm('fork.after', 'wait');
emit_counted($node, $_, \@keys, 1, 10) foreach qw(one two);
ok(Outbox::Faults::await_waiting('fork.after'), 'a topic in trouble has left its lane, and its side lane has not begun');
is(sql($sides), '1', 'one');
seek_to('infinity');
seek_to('-infinity');
is(sql($sides), '0', 'the route is moved on and back');
Outbox::Faults::release('fork.after');
ok(wait_for_value($node, $sides, '1', 60), 'the topic leaves it anew');
emit_counted($node, $_, \@keys, 11, 20) foreach qw(one two);
ok(wait_until(sub { $redis->xlen('one') >= 60 }, 60), 'the other topic goes on');

# Once more, now that the side lane waits; and again as it begins anew.
seek_to('infinity');
Outbox::Faults::arm('fork.after', 'wait');
seek_to('-infinity');
ok(Outbox::Faults::await_waiting('fork.after'), 'it leaves once more');
seek_to('infinity');
seek_to('-infinity');
emit_counted($node, $_, \@keys, 21, 25) foreach qw(one two);
Outbox::Faults::release('fork.after');
ok(wait_for_value($node, $sides, '1', 60), 'and once more');
is($redis->xlen('one') >= 60, 1, 'the other topic');
$redis->command('DEL', 'two');
ok(wait_idle($node), 'idle');
is_deeply(arrived('two'), all_to(25), 'all of the topic has come, in order and once');
my %first = map { $_ => 0 } @keys;
my $order = 1;
foreach my $payload (map { $_->{payload} } @{ $redis->entries('one') })
{
	my ($key, $n) = split / /, $payload;
	$order &&= $n <= $first{$key} + 1;
	$first{$key} = $n if $n > $first{$key};
}
is($order, 1, 'first occurrences of the other are in order');
is_deeply(\%first, { map { ($_ => 25) } @keys }, 'and none is missing');
ok(wait_for_value($node, $sides, '0', 60), 'the topic is back');
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing is parked');
no_server_crashed($node);
$node->stop;
done_testing();
