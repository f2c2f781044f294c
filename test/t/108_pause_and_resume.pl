# A route, a destination, a topic and a key that are paused send nothing, hold up nothing else, show it, stay paused
# across restarts and crashes, and go on where they were: in order, nothing twice, nothing lost.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
my @keys = qw(a b);
redis_route($node, $redis, 'redis', topic => q('{aggregate_type}'), aggregate_types => q('{one,two}'));
redis_route($node, $redis, 'other', topic => q('other'));

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub arrived { my ($stream) = @_; return by_key($redis->column($stream, 'payload')) }
sub all { my ($to) = @_; return { map { $_ => join ' ', 1 .. $to } @keys } }
my $done = 0;
# Ten more events of each key and type; returns when the other route has all of them.
sub more
{
	my ($from, $to) = ($done + 1, $done + 10);
	emit_counted($node, $_, \@keys, $from, $to) foreach 'one', 'two';
	$done = $to;
	return wait_until(sub { $redis->xlen('other') == $done * 4 }, 30);
}

# What is paused, with which arguments; the streams that stop; what shows it; and how the server goes down meanwhile.
my @cases = (
	{ name => 'route', arguments => q{route => 'redis'}, stopped => [qw(one two)], flows => [] },
	{ name => 'topic', arguments => q{route => 'redis', topic => 'one'}, stopped => ['one'], flows => ['two'] },
	{ name => 'key', arguments => q{route => 'redis', aggregate_type => 'one', aggregate_id => 'a'}, stopped => [], flows => ['two'] },
	{ name => 'destination', arguments => q{server => 'redis'}, stopped => [qw(one two)], flows => [] });
more();
ok(wait_idle($node), 'idle');
foreach my $case (@cases)
{
	my $name = $case->{name};
	my $before = $done;
	is(sql("SELECT outbox.pause($case->{arguments}, reason => 'maintenance of $name')"), 't', "$name: pause()");
	is(sql("SELECT outbox.pause($case->{arguments}, reason => 'again')"), 'f', "$name: paused already");
	ok(more(), "$name: another route flows");
	ok(wait_until(sub { $redis->xlen($_) == $done * @keys }, 30), "$name: $_ flows") foreach @{ $case->{flows} };
	is($redis->xlen($_), $before * @keys, "$name: $_ stands still") foreach @{ $case->{stopped} };
	ok(wait_until(sub { (arrived('one')->{b} // '') eq join ' ', 1 .. $done }, 30), "$name: other keys flow") if $name eq 'key';
	ok(wait_for_value($node, q{SELECT bool_or(state = 'paused' OR pending > 0 OR parked > 0) FROM outbox.lag WHERE route = 'redis'}, 't', 10), "$name: outbox.lag shows it");
	is(sql("SELECT count(*) FROM outbox.pause WHERE reason = 'maintenance of $name' AND paused_by = current_user"), '1', "$name: who and why is on record");
	is(sql(q{SELECT outbox.wait_until_idle('1 s')}), 'f', "$name: paused is not idle");
	foreach my $mode ('fast', 'immediate') # the orderly one first: nothing is in flight when it crashes
	{
		$node->stop($mode);
		$node->start;
	}
	ok(more(), "$name: after a restart and a crash another route flows");
	is(scalar(split / /, arrived('one')->{a}), $before, "$name: what is paused still stands still");
	is(sql("SELECT outbox.resume($case->{arguments}, reason => 'done')"), 't', "$name: resume()");
	is(sql("SELECT outbox.resume($case->{arguments})"), 'f', "$name: it was not paused any more");
	ok(wait_idle($node, 60), "$name: idle");
	is_deeply(arrived('one'), all($done), "$name: complete, in order, nothing twice");
	is_deeply(arrived('two'), all($done), "$name: likewise the other topic") if !@{ $case->{flows} };
	is(sql('SELECT (SELECT count(*) FROM outbox_internal.parked), (SELECT count(*) FROM outbox.pause)'), '0|0', "$name: nothing is left of it");
	ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.side_lane', '0', 60), "$name: no side lane is left");
}
is(sql(q{SELECT count(*) FILTER (WHERE action = 'pause'), count(*) FILTER (WHERE action = 'resume') FROM outbox.audit}), '4|4', 'outbox.audit has each of them');
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/outbox: (?:topic|route) .* is in trouble/, 'what somebody has asked for is no trouble');
no_server_crashed($node);
done_testing();
