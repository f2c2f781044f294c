# What status(), wait_for() and replay() say of an event is compared with where it really is, for every event: after a
# seek forward and back, a change of the number of lanes and back, a topic in a side lane, and parked events of one key.
# matrix: S5 R18
use strict;
use warnings;

use JSON::PP qw(decode_json);
use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('{aggregate_type}'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub emit { my ($type, $count, $event) = @_; return sql("SELECT outbox.emit('$type', n % 65, '$event', '{}') FROM generate_series(1, $count) n") }
sub state_of { my ($event) = @_; return sql("SELECT string_agg(DISTINCT s.state, ',') FROM outbox_internal.log l, outbox.status(l.id) s WHERE l.event_type = '$event'") }
sub number { my ($id) = @_; my ($ms, $n) = split /-/, $id; return sprintf '%020d-%010d', $ms, $n }

# Every event in Redis, against what status() says of it: its place is within places, or exactly place, or not told.
sub judge
{
	my ($what) = @_;
	my (%at, %told);
	foreach my $stream (qw(one two other))
	{
		push @{ $at{ $_->{id} } }, number($_->{_entry}) foreach @{ $redis->entries($stream) };
	}
	my ($wrong, $never, $exact, $null) = (0, 0, 0, 0);
	foreach my $line (split /\n/, sql(q{SELECT l.id, s.state, coalesce(s.place, ''), coalesce(s.places::text, ''), s.delivered_at IS NULL
		FROM outbox_internal.log l, outbox.status(l.id) s}))
	{
		my ($id, $state, $place, $places, $no_time) = split /\|/, $line;
		if (!$at{$id}) { $never++ if $state eq 'delivered' || $no_time eq 'f'; next }
		next if $state ne 'delivered';
		my @ranges = $place ? ([ $place, $place ]) : $places ? values %{ decode_json($places) } : ();
		$null++, next if !@ranges;
		$exact++;
		my ($first, $last) = map { number($_) } @{ $ranges[0] };
		$wrong++ if !grep { $_ ge $first && $_ le $last } @{ $at{$id} };
	}
	is($never, 0, "$what: what was never sent is not called delivered");
	is($wrong, 0, "$what: every place is that of the event");
	cmp_ok($exact, '>', 0, "$what: places are told ($exact, of $null not)");
	return;
}

# Older than the route.
my $older = sql(q{CREATE TABLE ids AS SELECT gen_random_uuid() AS id; SELECT outbox.emit('other', 1, 'older', '{}')});
sql(q{SELECT outbox.create_route('later', server => 'redis', aggregate_types => '{other}')});
is(sql("SELECT state FROM outbox.status('$older') WHERE route = 'later'"), '', 'a route that is younger does not speak of it');

emit('one', 65, 'first');
emit('two', 65, 'first');
ok(wait_idle($node), 'delivered');

# Passed over by a seek.
sql(q{SELECT outbox.pause('redis', reason => 'test')});
emit('one', 65, 'passed over');
my $id = sql(q{SELECT id FROM outbox_internal.log WHERE event_type = 'passed over' LIMIT 1});
sql(q{CALL outbox.seek('redis', 'infinity', dry_run => false)});
is(state_of('passed over'), 'passed over', 'what a seek passed over has a state of its own');
like(sql("SELECT reason FROM outbox.status('$id')"), qr/moved behind it by outbox.seek\(\) at .*outbox.replay\(\) sends it/, 'with the reason');
sql(q{SELECT outbox.resume('redis')});
is(sql("SELECT outbox.wait_for('$id') IS NULL"), 't', 'and wait_for() does not say that it arrives');
is(state_of('first'), 'delivered', 'what was delivered before is delivered');
emit('one', 65, 'second');
ok(wait_idle($node), 'delivered');

# Another number of lanes, twice, with the next events behind each.
foreach my $lanes (5, 2)
{
	sql("SELECT outbox.alter_route('redis', lanes => $lanes)");
	ok(wait_for_value($node, q{SELECT lanes_wanted IS NULL FROM outbox.route WHERE name = 'redis'}, 't'), "$lanes lanes");
	emit('one', 65, "with $lanes lanes");
	emit('two', 65, "with $lanes lanes");
	ok(wait_idle($node), 'delivered');
}
is(state_of('passed over'), 'passed over', 'still passed over');
judge('after other numbers of lanes');

# replay() tells what it sends for the first time.
my (undef, undef, $notices) = $node->psql('postgres', q{CALL outbox.replay(since => '-infinity', route => 'redis', aggregate_type => 'one')});
like($notices, qr/of these for the first time: 65 events/, 'replay() tells what is sent for the first time');

# Back: delivered for the first time, or again.
my $moment = sql(q{SELECT min(created_at) FROM outbox_internal.log WHERE event_type = 'passed over'});
(undef, undef, $notices) = $node->psql('postgres', "CALL outbox.seek('redis', '$moment', dry_run => false)");
like($notices, qr/sends 325 delivered events again, 65 passed over before for the first time, and passes over 0/, 'seek() counts both');
ok(wait_idle($node), 'delivered');
is(state_of('passed over'), 'delivered', 'now it is');
is(sql("SELECT outbox.wait_for('$id')"), 't', 'and wait_for() says so');
judge('after a seek back');

# A topic that had left its lane when the route was moved: passed over of it is what its side lane had not sent.
sql(q{SELECT outbox.pause('redis', topic => 'two', reason => 'test')});
emit('two', 65, 'left');
ok(wait_for_value($node, q{SELECT count(*) > 0 FROM outbox_internal.side_topic}, 't'), 'the topic has left');
emit('one', 65, 'stayed');
ok(wait_until(sub { state_of('stayed') eq 'delivered' }, 30), 'the others are delivered');
sql(q{CALL outbox.seek('redis', 'infinity', dry_run => false)});
is(state_of('left'), 'passed over', 'of the topic: passed over');
is(state_of('stayed'), 'delivered', 'of the others: delivered');
sql(q{SELECT outbox.resume('redis', topic => 'two')});

# Parked events of one key in one claim: a place is exact, or none.
sql(q{SELECT outbox.emit('one', 1, 'parked', '{}', deliver_at => now() + interval '2 s') FROM generate_series(1, 3)});
my $parked = sql(q{SELECT id FROM outbox_internal.log WHERE event_type = 'parked' LIMIT 1});
is(sql(q{SELECT outbox.wait_until_idle('10 s')}), 't', 'what is scheduled is no work: idle');
is(sql(q{SELECT outbox.wait_until_idle('0', include_delayed => true)}), 'f', 'unless that is asked for');
is(sql(q{SELECT outbox.wait_until_idle('20 s', include_delayed => true); SELECT count(*) FROM outbox_internal.parked}), "t\n0", 'which waits for it');
is(sql("SELECT outbox.wait_for('$parked', '20 s')"), 't', 'wait_for() waits for it');
ok(wait_until(sub { state_of('parked') eq 'delivered' }, 20), 'delivered');
is(sql(q{SELECT count(*) FROM outbox_internal.outcome WHERE place !~ '^[0-9]+-[0-9]+$'}), '0', 'no place is a range');
judge('parked');

$node->stop;
done_testing();
