# Parked events that are sent while a transaction holds a snapshot: no vacuum may take away what has gone, and the search for
# the next ones does not pass it again and again. What appears before the place from which is searched is found all the same:
# an event that was committed late, one that an operator sends again, one that nobody has told the worker of.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 1\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $many = 10_000;

# Index entries that searches have come by. A worker reports its figures when it has nothing to do, and each second.
sub entries_read { return sql(q{SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE indexrelname IN ('parked_due_idx', 'parked_key_idx')}) }
sub holder
{
	my $session = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
	$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox_internal.parked');
	return $session;
}
sub ids { return [ map { $_->{id} } @{ $redis->entries($_[0]) } ] }

# --- one key ---
redis_route($node, $redis, 'r', topic => q('k'));
my $late = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
my $late_id = $late->query_safe(q(BEGIN; SELECT outbox.emit('a', 'k', 'late', '{}')));
sql(q(SELECT outbox.pause('r', aggregate_type => 'a', aggregate_id => 'k', reason => 'to have many')));
sql("SELECT count(outbox.emit('a', 'k', 'one', '{}')) FROM generate_series(1, $many)");
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', $many, 120), 'the events of a paused key are parked');
# A dead letter of the key, from before them, and one that is put there behind the worker's back.
my $put = q{INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, order_key, due_at, aggregate_type, aggregate_id, event_type, payload, topic)
	SELECT r.id, 0, now() - interval '1 hour', gen_random_uuid(), '%s', p.order_key, %s, 'a', 'k', '%s', '{}', 'k'
	FROM outbox.route r, (SELECT order_key FROM outbox_internal.parked LIMIT 1) p RETURNING id};
my $dead_id = sql(sprintf $put, 'dead', 'NULL', 'dead');
my $holder = holder();
my $read = entries_read();
sql(q(SELECT outbox.resume('r', aggregate_type => 'a', aggregate_id => 'k')));
ok(wait_until(sub { $redis->xlen('k') > 1_500 }, 60), 'resumed, it goes');
$late->query_safe('COMMIT');
my $gone = $redis->xlen('k'); # on a busy machine that may be nearly all
$late->quit;
ok(wait_until(sub { grep { $_ eq $late_id } @{ ids('k') } }, 60), 'an event with an earlier time that is committed meanwhile goes too');
sql("SELECT outbox.retry('$dead_id')");
ok(wait_until(sub { grep { $_ eq $dead_id } @{ ids('k') } }, 60), 'and so does a dead letter that is sent again');
ok(wait_until(sub { $redis->xlen('k') >= $many + 2 }, 120), 'all go');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 30), 'and leave');
sleep 2;
cmp_ok((entries_read() - $read) / $many, '<', 90, 'a search does not pass what has gone: entries read for each event');
my $sent = $redis->entries('k');
is(scalar(keys %{ { map { $_->{id} => 1 } @$sent } }), $many + 2, 'each is there');
is(scalar(@$sent), $many + 2, 'once');
my ($place) = grep { $sent->[$_]{id} eq $late_id } 0 .. $#$sent;
cmp_ok($place, '<', $gone + $many / 2, "the late one before the rest: behind $place, committed when $gone had gone");
my @run = map { $_->{created_at} } grep { $_->{id} ne $late_id && $_->{id} ne $dead_id } @$sent;
is(scalar(grep { $run[ $_ - 1 ] > $run[$_] } 1 .. $#run), 0, 'in order');
my $behind = sql(q(SELECT outbox.emit('a', 'k', 'live', '{}')));
is(sql("SELECT outbox.wait_for('$behind', '30 s')"), 't', 'and the key is free');

# --- without a key, at a time ---
sql("SELECT count(outbox.emit('a', NULL, 'loose', '{}', deliver_at => now() + interval '10 s')) FROM generate_series(1, $many)");
sql("SELECT count(outbox.emit('a', 'o' || n % 5000, 'keyed', '{}', deliver_at => now() + interval '10 s')) FROM generate_series(1, $many) n");
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', 2 * $many, 120), 'events for later are parked');
$read = entries_read();
my $was = $redis->xlen('k');
ok(wait_until(sub { $redis->xlen('k') >= $was + 2 * $many }, 120), 'they go when it is time');
sleep 2;
cmp_ok((entries_read() - $read) / $many, '<', 30, 'entries read for each with a key');
# These were due before all of them. One is of a key, the other of none.
sql(q{INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, order_key, due_at, aggregate_type, aggregate_id, event_type, payload, topic)
	SELECT r.id, 0, now() - n * interval '1 hour', gen_random_uuid(), 'retrying', nullif(n, 1), now() - interval '1 day', 'a', nullif('x' || n, 'x1'), 'hidden', '{}', 'k'
	FROM outbox.route r, generate_series(1, 2) n});
ok(wait_until(sub { $redis->xlen('k') == $was + 2 * $many + 2 }, 45), 'what was put before them by hand is found as well');

$holder->quit;
no_server_crashed($node);
done_testing();
