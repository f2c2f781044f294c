# Replay of delivered events, by key, type, time and id, to the same route or another: dry run first, same event id and
# bytes, a header that says so, in order, no faster than asked, also across a restart. And seek() moves a route back
# and forth.
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node();
my $redis = Outbox::Redis->start;
my @keys = qw(a b c);
redis_route($node, $redis, 'redis', topic => q('{aggregate_type}'), aggregate_types => q('{one,two}'));
redis_route($node, $redis, 'other', topic => q('other'), aggregate_types => q('{nothing}'));

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
# How many events outbox.replay() says there are.
sub replay { my ($arguments) = @_; return (split /\|/, sql("CALL outbox.replay($arguments)"))[1] }
sub numbers { my ($from, $to) = @_; return join ' ', $from .. $to }
# Entries that came after the first $skip, each stream has how many it has.
sub since
{
	my ($stream, $skip) = @_;
	my @entries = @{ $redis->entries($stream) };
	return [ @entries[ $skip .. $#entries ] ];
}
sub comes { my ($stream, $count, $what) = @_; return ok(wait_until(sub { $redis->xlen($stream) >= $count }, 30), $what) }
sub payloads { return by_key([ map { $_->{payload} } @{ $_[0] } ]) }

emit_counted($node, 'one', \@keys, 1, 20);
my $between = sql(q{SELECT max(created_at) + interval '1 microsecond' FROM outbox_internal.log});
emit_counted($node, $_, \@keys, 21, 40) foreach 'one';
emit_counted($node, 'two', \@keys, 1, 10);
ok(wait_idle($node), 'all delivered');
is($redis->xlen('one'), 120, 'once');
my %original = map { $_->{payload} => $_ } @{ $redis->entries('one') };

# Dry run: counts, sends nothing.
is(replay(q{since => '-infinity', route => 'redis', aggregate_type => 'one', aggregate_id => 'a', reason => 'a look'}), '40', 'a dry run is the default, and counts');
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'and parks nothing');

# By key.
is(replay(q{since => '-infinity', route => 'redis', aggregate_type => 'one', aggregate_id => 'a', dry_run => false, reason => 'consumer lost it'}), '40', 'replay of a key');
comes('one', 160, 'it arrives');
my $again = since('one', 120);
is_deeply(payloads($again), { a => numbers(1, 40) }, 'this key only, in order, once');
my @differ = grep { my $was = $original{ $_->{payload} }; my %now = %$_;
	my $mark = delete $now{'h:outbox-replay'}; delete $now{_entry}; my %then = %$was; delete $then{_entry};
	!defined $mark || join("\0", map { "$_=$now{$_}" } sort keys %now) ne join("\0", map { "$_=$then{$_}" } sort keys %then) } @$again;
is(scalar @differ, 0, 'the same id and bytes, and the header outbox-replay');

# By time, to another route, across a restart, throttled.
my $called = int(time * 1000);
is(replay("route => 'redis', to_route => 'other', aggregate_type => 'one', since => '$between', per_second => 20, dry_run => false"), '60', 'replay by time');
comes('other', 5, 'it begins');
$node->restart;
comes('other', 60, 'and goes on after a restart');
my $other = $redis->entries('other');
is_deeply(payloads($other), { map { $_ => numbers(21, 40) } @keys }, 'what was emitted since, to the other route, in order, once');
my ($last) = map { $_->{_entry} =~ /^(\d+)/ } $other->[-1];
cmp_ok($last - $called, '>', 2500, 'no faster than asked');
is($redis->xlen('one'), 160, 'and not to its own route');

# By event type and id.
is(replay(q{since => '-infinity', route => 'redis', event_type => 'nothing like it', dry_run => false}), '0', 'replay of nothing');
my $ids = sql(q{SELECT array_agg(id) FROM (SELECT id FROM outbox_internal.log WHERE aggregate_type = 'two' AND aggregate_id = 'b' ORDER BY created_at LIMIT 3) l});
is(replay("route => 'redis', ids => '$ids', dry_run => false"), '3', 'replay by id');
comes('two', 33, 'they arrive');
is_deeply(payloads(since('two', 30)), { b => '1 2 3' }, 'these three, in order');
ok(wait_idle($node), 'idle');
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing is left parked');
cmp_ok(sql(q{SELECT count(*) FROM outbox.audit WHERE action = 'replay' AND NOT coalesce((detail->>'dry_run')::boolean, false)}), '>=', 3, 'outbox.audit has them');

# Seek: back, and past everything.
my $one = $redis->xlen('one');
is(sql("CALL outbox.seek('redis', '$between', dry_run => true)"), '90|0', 'seek() back: a dry run counts');
is(sql("CALL outbox.seek('redis', '$between', reason => 'from there again', dry_run => false)"), '90|0', 'and so does the real one');
comes('one', $one + 60, 'everything since comes again');
ok(wait_idle($node), 'idle');
is_deeply(payloads(since('one', $one)), { map { $_ => numbers(21, 40) } @keys }, 'and nothing before it, in order, once');
sql(q{SELECT outbox.pause(route => 'redis', reason => 'wrong deployment')});
emit_counted($node, 'one', \@keys, 41, 60);
# By the events' own clock: after a restart it may run ahead of the wall clock.
my $now = sql(q{SELECT max(created_at) + interval '1 microsecond' FROM outbox_internal.log});
emit_counted($node, 'one', \@keys, 61, 65);
is(sql("CALL outbox.seek('redis', '$now', reason => 'not these', dry_run => false)"), '0|60', 'seek() forward counts what it passes over');
$one = $redis->xlen('one');
sql(q{SELECT outbox.resume(route => 'redis')});
comes('one', $one + 15, 'what is newer comes');
ok(wait_idle($node), 'idle');
is_deeply(payloads(since('one', $one)), { map { $_ => numbers(61, 65) } @keys }, 'and what was passed over does not');
is(sql(q{SELECT string_agg(reason, ', ' ORDER BY at) FROM outbox.audit WHERE action = 'seek'}), 'from there again, not these', 'outbox.audit has both');
no_server_crashed($node);
done_testing();
