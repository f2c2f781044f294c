# Delayed events arrive when they are due and not before, also across restarts; two of one key in the order of their due
# times; several workers share those without a key and deliver each once; skip() takes one back.
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node(conf => "outbox.workers = 2\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('{aggregate_type}'), lanes => 2);

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub payloads { my ($stream) = @_; return [ map { $_->{payload} } @{ $redis->entries($stream) } ] }
sub arrive
{
	my ($stream, $count, $timeout, $what) = @_;
	return ok(wait_until(sub { $redis->xlen($stream) >= $count }, $timeout), $what);
}
# No entry came before its time, and none much later; payloads end in the due time in milliseconds.
sub on_time
{
	my ($stream, $slack, $what) = @_;
	my (@early, @late);
	foreach my $entry (@{ $redis->entries($stream) })
	{
		my ($came) = $entry->{_entry} =~ /^(\d+)/;
		my ($due) = $entry->{payload} =~ /(\d+)$/;
		push @early, $entry->{payload} if $came < $due;
		push @late, "$entry->{payload}: " . ($came - $due) . ' ms' if $came > $due + $slack;
	}
	is_deeply(\@early, [], "$what: none before its time");
	is_deeply(\@late, [], "$what: none late");
	return;
}
# SQL for an event of a type that is due in so many seconds and says so in its payload.
sub delayed
{
	my ($type, $key, $name, $seconds) = @_;
	my $due = int((time + $seconds) * 1000);
	return "SELECT outbox.emit_text('$type', $key, 'x', '$name $due', deliver_at => to_timestamp($due / 1000.0))";
}

# One key: what is not delayed does not wait for what is.
sql(join ';', q{SELECT outbox.emit_text('key', 'k', 'x', 'first 0')}, delayed('key', q('k'), 'late', 9), delayed('key', q('k'), 'soon', 8),
	q{SELECT outbox.emit_text('key', 'k', 'x', 'second 0')}, delayed('key', q('k'), 'past', -1000));
arrive('key', 3, 20, 'what is not delayed, or was due long ago, goes at once');
is_deeply([ (map { s/ .*//r } @{ payloads('key') })[ 0 .. 2 ] ], [qw(first second past)], 'in the order of emission');
ok(wait_for_value($node, q{SELECT string_agg(state, ' ') FROM outbox_internal.parked}, 'scheduled scheduled', 6), 'the others are scheduled');
is(sql(q{SELECT DISTINCT s.state, s.next_try = p.due_at FROM outbox_internal.parked p, outbox.status(p.id) s}), 'scheduled|t', 'outbox.status says until when');
arrive('key', 5, 40, 'they arrive');
is_deeply([ map { s/ .*//r } @{ payloads('key') } ], [qw(first second past soon late)], 'in the order of their due times');

# Many at the same moment, with and without keys, for two workers.
my $due = int((time + 2) * 1000);
sql("SELECT count(outbox.emit_text('many', CASE WHEN i % 2 = 0 THEN (i % 20)::text END, 'x', i || ' $due', deliver_at => to_timestamp($due / 1000.0))) FROM generate_series(1, 600) i");
arrive('many', 600, 30, 'six hundred that are due at once arrive');
# Had its timer been missed, it would be found after half a minute.
on_time('many', 25_000, 'many');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 20), 'nothing is left');
is($redis->xlen('many'), 600, 'each once');
my %last;
my @swapped = grep { my ($n) = $_->{payload} =~ /^(\d+)/; my $before = $last{ $_->{key} } // 0; $last{ $_->{key} } = $n; $n < $before }
  grep { defined $_->{key} } @{ $redis->entries('many') };
is(scalar @swapped, 0, 'those of one key in the order of emission, as their due time is the same');

# Across restarts: due while the server is down, due after an orderly restart, due after a crash.
sql(join ';', delayed('restart', 'NULL::text', 'down', 6), delayed('restart', q('r'), 'down too', 6), delayed('restart', q('r'), 'after', 14),
	delayed('restart', 'NULL::text', 'after too', 14));
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'scheduled'}, '4', 5), 'four wait');
my $down = time + 6.1;
$node->stop('fast');
is($redis->xlen('restart'), 0, 'none of them has come');
sleep 0.05 while time < $down;
$node->start;
arrive('restart', 2, 20, 'what fell due while the server was down arrives');
$node->stop('immediate');
$node->start;
arrive('restart', 4, 60, 'and the rest, after a crash');
on_time('restart', 25_000, 'restart');

# Taken back, and hurried.
my $far = sql(q{SELECT outbox.emit_text('far', 'f', 'x', 'never 0', deliver_at => now() + interval '1 year')});
my $hurried = sql(q{SELECT outbox.emit_text('far', 'f', 'x', 'now 0', deliver_at => now() + interval '1 year')});
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'scheduled'}, '2', 10), 'two wait for a year');
is(sql("SELECT outbox.skip('$far', 'not wanted any more')"), '1', 'one is taken back');
is(sql("SELECT outbox.retry('$hurried', reason => 'cannot wait')"), '1', 'one is hurried');
arrive('far', 1, 20, 'it arrives');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 20), 'nothing is left');
is_deeply(payloads('far'), ['now 0'], 'and nothing else came');
ok(wait_idle($node), 'idle');
no_server_crashed($node);
done_testing();
