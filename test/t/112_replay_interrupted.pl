# A replay whose session is cancelled or goes away says so, does not start over, and goes on where it stopped, in order
# and with nothing twice; it can be cancelled instead. More events than fit into maintenance_work_mem take several
# passes.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
my $events = 40_000;    # one pass of 1 MB holds 32,768
redis_route($node, $redis, 'redis', topic => q('{aggregate_type}'), start => q('earliest'));
redis_route($node, $redis, 'again', topic => q('again'), aggregate_types => q('{nothing}'), lanes => 2);

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub state { my ($number) = @_; return sql("SELECT state FROM outbox.replay WHERE number = $number") }
sub copies { my ($number) = @_; return sql("SELECT count(*) FROM outbox_internal.parked WHERE replay = $number") }

sql(qq{SELECT outbox.pause('again', reason => 'the test counts what is copied');
	SELECT cardinality(outbox.emit_many('bulk', (SELECT array_agg((i % 100)::text ORDER BY i) FROM generate_series(1, $events) i), 'made',
	  (SELECT array_agg(to_jsonb(i) ORDER BY i) FROM generate_series(1, $events) i)))});
ok(wait_for_value($node, q{SELECT sum(pending) FROM outbox.lag WHERE route = 'redis'}, '0', 60), 'forty thousand events are delivered');

# Begins a replay to the paused route, and stops it in the middle of a batch: somebody has its row locked.
sub begin_and_block
{
	my ($more) = @_;
	my $before = sql('SELECT coalesce(max(number), 0) FROM outbox.replay');
	my $copier = $node->background_psql('postgres', on_error_stop => 0, timeout => 600);
	$copier->query_safe('SET maintenance_work_mem = 1024');
	my $pid = $copier->query_safe('SELECT pg_backend_pid()');
	$copier->{stdin} .= "CALL outbox.replay(since => '-infinity', route => 'redis', to_route => 'again', dry_run => false$more);\n";
	$copier->{run}->pump_nb;
	ok(wait_for_value($node, "SELECT count(*) FROM outbox.replay WHERE number > $before AND copied > 0", '1', 60), 'it copies');
	my $number = sql('SELECT max(number) FROM outbox.replay');
	my $locker = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
	$locker->query_safe('BEGIN');
	$locker->query_safe("SELECT 1 FROM outbox.replay WHERE number = $number FOR UPDATE");
	ok(wait_for_value($node, "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid", 'Lock', 30), 'and is stopped');
	return ($copier, $locker, $pid, $number);
}

# The session goes away.
my ($copier, $locker, $pid, $number) = begin_and_block(', per_second => NULL');
my ($status, undef, $error) = $node->psql('postgres', "CALL outbox.replay(number => $number, dry_run => false)");
like($error, qr/replay $number is being copied by another session/, 'nobody else can go on with it meanwhile');
sql('SELECT pg_reload_conf()');    # the keeper looks
sql("SELECT pg_terminate_backend($pid, 20000)");
$locker->query_safe('COMMIT');
$locker->quit;
my $copied = sql("SELECT copied FROM outbox.replay WHERE number = $number");
cmp_ok($copied, '>', 0, 'some are copied');
cmp_ok($copied, '<', $events, 'not all');
is(copies($number), $copied, 'as many as its row says');
ok(wait_until(sub { sql('SELECT pg_reload_conf()'); return state($number) eq 'interrupted' }, 40), 'it says that it was interrupted');
like(sql(q{SELECT detail || ' ' || hint FROM outbox.doctor() WHERE "check" = 'replay'}), qr/Replay $number was interrupted: $copied of $events .*number => $number/,
	'and so does doctor()');
is(sql("CALL outbox.replay(number => $number)"), "$number|" . ($events - $copied), 'a dry run counts what is left');
is(state($number), 'interrupted', 'and changes nothing');
is(sql("SET maintenance_work_mem = 1024; CALL outbox.replay(number => $number, dry_run => false)"), "$number|" . ($events - $copied), 'it goes on');
is(sql("SELECT state, matched, copied FROM outbox.replay WHERE number = $number"), "scheduled|$events|$events", 'to its end');
is(sql("SELECT count(*), count(DISTINCT id) FROM outbox_internal.parked WHERE replay = $number"), "$events|$events", 'each event is copied once');
is(sql(q{SELECT count(*) FROM outbox.doctor() WHERE "check" = 'replay'}), '0', 'doctor() is content');
($status, undef, $error) = $node->psql('postgres', "CALL outbox.replay(number => $number, dry_run => false)");
like($error, qr/replay $number is complete/, 'what is complete does not go on');
is(sql("SELECT outbox.cancel_replay($number, 'not needed')"), $events, 'and all of it can be taken back');
is(copies($number), '0', 'nothing of it is left');

# The call is cancelled; the replay is given up where it stopped. At its pace the rest would come behind what was copied.
($copier, $locker, $pid, $number) = begin_and_block(', per_second => 10');
sql("SELECT pg_cancel_backend($pid)");
ok(wait_for_value($node, "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid", 'Client', 30), 'the call ends, the session stays');
$locker->query_safe('COMMIT');
$locker->quit;
foreach my $rate (20, 'NULL')
{
	($status, undef, $error) = $node->psql('postgres', "CALL outbox.replay(number => $number, per_second => $rate, dry_run => false)");
	like($error, qr/number goes with no filter, no route and no per_second\nDETAIL:  A replay that goes on does so with what it was begun with/, "at no other pace ($rate)");
}
is(sql("CALL outbox.replay(number => $number, per_second => 10.0)"), "$number|" . ($events - copies($number)), 'its own may be said');
my $last = sql("SELECT max(due_at) FROM outbox_internal.parked WHERE replay = $number");
$copied = copies($number);
is(sql("CALL outbox.replay(number => $number, dry_run => false)"), "$number|" . ($events - $copied), 'it goes on at once');
is(sql("SELECT count(*), max(due_at) - min(due_at) > interval '30 minutes' FROM outbox_internal.parked WHERE replay = $number AND due_at > '$last'"),
	($events - $copied) . '|t', 'behind what had been copied, at its own pace');
is(sql("SELECT outbox.cancel_replay($number)"), $events, 'cancelled');
($copier, $locker, $pid, $number) = begin_and_block('');
sql("SELECT pg_cancel_backend($pid)");
ok(wait_for_value($node, "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid", 'Client', 30), 'another one is stopped');
$locker->query_safe('COMMIT');
$locker->quit;
cmp_ok(sql("SELECT outbox.cancel_replay($number)"), '>', 0, 'it can be cancelled as it is');
is(copies($number), '0', 'nothing of it is left');
is(state($number), 'cancelled', 'it says so');

no_server_crashed($node);
done_testing();
