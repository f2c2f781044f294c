# A latch that is set and reaches nobody. One lost wake-up of a relay worker, and every one of all our processes for as long
# as it takes to emit, deliver, wait, change routes, retry what is parked, set up another database and drop it: what would
# have been told is found by the next look, which is never further away than outbox.poll_interval for events, and ten seconds
# for databases and their processes.
# matrix: F6
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

# Far longer than a wake-up takes on the busiest machine, and than any wait below.
my $node = new_node(conf => "outbox.workers = 2\nmax_worker_processes = 16\noutbox.poll_interval = '60s'\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'woken', topic => q('woken'), aggregate_types => q('{order}'), lanes => 4);
sub sql { my ($query, $database) = @_; return $node->safe_psql($database // 'postgres', $query) }
# Nobody is asked but Redis: who looks at outbox.lag, or waits until all is idle, wakes workers.
my $emitted = 0;
sub emit { my ($count) = @_; $emitted += $count; return sql("SELECT count(outbox.emit_text('order', 'k' || i, 'x', 'x')) FROM generate_series(1, $count) i") }
sub arrived { return $redis->command('EXISTS', 'woken') && $redis->xlen('woken') }
# How long it takes until all that was emitted has arrived.
sub all_came
{
	my ($timeout) = @_;
	my $start = time;
	return wait_until(sub { arrived() == $emitted }, $timeout) ? time - $start : undef;
}
sub poll_interval
{
	my ($value) = @_;
	sql("ALTER SYSTEM SET outbox.poll_interval = '$value'");
	return sql('SELECT pg_reload_conf()');
}
sub ok_within
{
	my ($took, $bound, $what) = @_;
	return ok(defined $took && $took < $bound, sprintf '%s: %s', $what, defined $took ? sprintf('%.2f s', $took) : 'never');
}

emit(8);
ok(wait_idle($node), 'lanes work');
is(Outbox::Faults::hits('wake.latch'), 0, 'no wake-up is lost yet');
foreach my $i (1 .. 3)
{
	emit(8);
	ok_within(all_came(20), 20, 'each commit wakes who waits for a minute');
}

# --- the wake-up of one commit ----------------------------------------------------------------------------------------
# A worker that has been marked as woken is not woken again: all that is emitted meanwhile waits for its next look.
poll_interval('2s');
ok(wait_idle($node), 'the workers look every two seconds');
foreach my $lost (1, 2)
{
	my $before = Outbox::Faults::hits('wake.latch');
	Outbox::Faults::arm('wake.latch', 'fail *');
	emit(1);
	Outbox::Faults::disarm('wake.latch');
	cmp_ok(Outbox::Faults::hits('wake.latch'), '>', $before, "nobody was woken by a commit ($lost)");
	emit(8) foreach 1 .. 3;
	ok_within(all_came(20), 12, 'its event, and all after it, come with the next look, at most two seconds away');
	emit(8);
	ok_within(all_came(20), 12, 'and those after that');
}

# --- a commit that is visible, and whose wake-up is late -----------------------------------------------------------------
Outbox::Faults::arm('emit.committed', 'wait');
my $late = $node->background_psql('postgres', timeout => 120);
$late->query_until(qr/^$/m, "SELECT outbox.emit_text('order', 'late', 'x', 'x');\n");
$emitted++;
ok(Outbox::Faults::await_waiting('emit.committed', 20), 'a transaction has committed and not yet woken anybody');
ok_within(all_came(20), 12, 'nobody needs to be woken for its event');
Outbox::Faults::release('emit.committed');
$late->quit;

# --- every wake-up, of everybody --------------------------------------------------------------------------------------
poll_interval('500ms');
ok(wait_idle($node), 'the workers look twice a second');
my $hits = Outbox::Faults::hits('wake.latch');
Outbox::Faults::arm('wake.latch', 'fail *');
foreach my $i (1 .. 5)
{
	emit(8);
	ok_within(all_came(20), 11, 'all wake-ups are lost: events come with the next look');
}
cmp_ok(Outbox::Faults::hits('wake.latch'), '>=', $hits + 5, 'they were lost');
my $id = sql(q{SELECT outbox.emit_text('order', 'waited for', 'x', 'x')});
$emitted++;
is(sql("SELECT outbox.wait_for('$id', '20 s')"), 't', 'wait_for() comes back');
ok(wait_idle($node, 20), 'and wait_until_idle()');
sql(q{SELECT outbox.emit_text('order', 'scheduled', 'x', 'x', deliver_at => clock_timestamp() + interval '1 s')});
$emitted++;
ok_within(all_came(20), 12, 'what is scheduled comes');

# What is only told to workers.
redis_route($node, $redis, 'made', topic => q('made'), aggregate_types => q('{made}'));
my $parked = sql(q{SELECT outbox.emit_text('made', 'k', 'x', 'x', deliver_at => now() + interval '1 hour')});
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '1', 30), 'a route that was made is served');
sql("SELECT outbox.retry('$parked')");
ok(wait_until(sub { $redis->command('EXISTS', 'made') && $redis->xlen('made') == 1 }, 30), 'what is retried is sent');
sql(q{SELECT outbox.pause(route => 'woken', reason => 'test')});
emit(4);
sql(q{SELECT outbox.resume(route => 'woken')});
ok_within(all_came(30), 20, 'a route is resumed');
sql(q{SELECT outbox.alter_route('woken', lanes => 2)});
ok(wait_for_value($node, q{SELECT lanes, lanes_wanted FROM outbox.route WHERE name = 'woken'}, '2|', 60), 'lanes are changed');
emit(8);
ok_within(all_came(30), 20, 'and work');

# What is told to the launcher.
sql('CREATE DATABASE second');
sql('CREATE EXTENSION outbox', 'second');
sql("CREATE SERVER s FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
	SELECT outbox.create_route('s', server => 's', topic => 'second'); SELECT outbox.emit_text('x', 'k', 'x', 'x')", 'second');
ok(wait_until(sub { $redis->command('EXISTS', 'second') && $redis->xlen('second') == 1 }, 60), 'a database that is new is served');
my $began = time;
sql('DROP DATABASE second');
ok_within(time - $began, 30, 'and goes');

Outbox::Faults::disarm('wake.latch');
poll_interval('60s');
ok(wait_idle($node), 'wake-ups get through again');
emit(8);
ok_within(all_came(20), 20, 'events come at once again');
is(arrived(), $emitted, 'nothing was repeated');
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing is parked');
no_server_crashed($node);
done_testing();
