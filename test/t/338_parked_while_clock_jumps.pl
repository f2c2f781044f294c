# The wall clock is ten days ahead and not believed. What lanes and operators let go meanwhile (resume(), retry(), what
# is settled, replay()) is due by the clock that is believed, so it goes at once.
# matrix: B13 R4
use strict;
use warnings;

use Outbox::Clock;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Clock::prepare(PostgreSQL::Test::Utils::tempdir());
my $redis = Outbox::Redis->start;
my $node;
Outbox::Clock::with(sub { $node = new_node() });
redis_route($node, $redis, 'r', topic => q('s'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub jump { Outbox::Clock::believe_after(100_000); Outbox::Clock::set(864_000); return }
sub arrive
{
	my ($count, $name) = @_;
	return ok(wait_until(sub { $redis->xlen('s') >= $count }, 120), $name);
}

sub park
{
	my ($key) = @_;
	sql("SELECT outbox.pause(route => 'r', aggregate_type => 'order', aggregate_id => '$key', reason => 'test')");
	emit_counted($node, 'order', [$key], 1, 600);
	ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'blocked'}, 600), "600 of $key are parked");
	return;
}
my $resume = q{SELECT outbox.resume(route => 'r', aggregate_type => 'order', aggregate_id => '%s')};

park('a');
jump();
sql(sprintf $resume, 'a');
arrive(600, 'resumed while the clock is ahead: all go');
Outbox::Clock::set(0);

# A run is 256 rows: the next ones are let go when those are settled.
park('b');
$redis->stop;
sql(sprintf $resume, 'b');
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'retrying'}, 256), 'the first of b are due');
jump();
$redis->restart;
arrive(1200, 'let go by their lane while the clock is ahead: all go');
Outbox::Clock::set(0);

my $later = sql(q{SELECT outbox.emit('order', 'c', 'scheduled', '{}', deliver_at => now() + interval '5 days')});
ok(wait_for_value($node, "SELECT state FROM outbox.status('$later')", 'scheduled'), 'one is scheduled');
jump();
sql("SELECT outbox.retry('$later')");
arrive(1201, 'retry() while the clock is ahead: it goes');
sql(q{CALL outbox.replay(route => 'r', since => '-infinity', aggregate_id => 'a', dry_run => false)});
arrive(1801, 'replay() while the clock is ahead: all go');
Outbox::Clock::set(0);
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', 0), 'nothing is left');
$node->stop;
no_server_crashed($node);
done_testing();
