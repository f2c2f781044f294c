# Somebody has the first parked event of a key locked, in a transaction that stays open, and more of the key wait behind it
# than a lane looks at: that key waits, and no other. When the transaction has ended it goes on, though it told no worker.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 1\nmax_prepared_transactions = 1\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $many = 1_000;
my $first = q{(SELECT id FROM outbox_internal.parked WHERE aggregate_id = '%s' ORDER BY created_at LIMIT 1)};

redis_route($node, $redis, 'r', topic => q('s'));
my @ways = (
	[ 'skip() taken back', "SELECT outbox.skip($first, reason => 'perhaps')", 'ROLLBACK' ],
	[ 'skip()', "SELECT outbox.skip($first, reason => 'it must not go')", 'COMMIT' ],
	[ 'a lock by hand', "SELECT id FROM outbox_internal.parked WHERE id = $first FOR UPDATE", 'COMMIT' ]);
foreach my $way (@ways)
{
	my ($name, $lock, $end) = @$way;
	my @keys = map { "$name $_" } 1 .. 2;
	sql("SELECT outbox.pause('r', aggregate_type => 'a', aggregate_id => '$_', reason => 'to have many')") for @keys;
	sql("SELECT count(outbox.emit('a', '$_', 'one', '{}')) FROM generate_series(1, $many)") for @keys;
	ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', 2 * $many, 60), "$name: two keys are parked");
	my $before = $redis->xlen('s');
	my $holder = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
	$holder->query_safe('BEGIN');
	$holder->query_safe(sprintf $lock, $_) for @keys;
	sql("SELECT outbox.resume('r', aggregate_type => 'a', aggregate_id => '$_')") for @keys;
	sleep 1;
	sql("SELECT count(outbox.emit('a', 'other' || n % 3, 'later', '{}', deliver_at => now() + interval '200 ms')) FROM generate_series(1, 9) n");
	ok(wait_until(sub { $redis->xlen('s') >= $before + 9 }, 10), 'what is due of other keys goes');
	sleep 2;
	is($redis->xlen('s'), $before + 9, 'and of these nothing');
	my $pid = $holder->query_safe('SELECT pg_backend_pid()');
	is(sql("SELECT count(*) FROM outbox.blocked_key b WHERE b.locked_by = $pid AND b.waiting = $many AND b.behind = (SELECT p.id FROM outbox_internal.parked p WHERE p.aggregate_id = b.aggregate_id ORDER BY p.created_at LIMIT 1)"),
		'2', 'blocked_key says who has it locked');
	is(sql(qq(SELECT reason FROM outbox_internal.parked p, outbox.status(p.id) WHERE p.aggregate_id = '$keys[0]' ORDER BY p.created_at LIMIT 1)),
		"session $pid has it locked", 'status() of the first');
	like(sql(qq(SELECT reason FROM (SELECT id FROM outbox_internal.parked p WHERE p.aggregate_id = '$keys[0]' ORDER BY p.created_at OFFSET 1 LIMIT 1) p, outbox.status(p.id))),
		qr/^waits behind event [-0-9a-f]+: session $pid has it locked$/, 'and of the one behind');
	$holder->query_safe($end);
	my $left = 2 * $many - ($end eq 'COMMIT' && $name =~ /skip/ ? 2 : 0);
	ok(wait_until(sub { $redis->xlen('s') >= $before + 9 + $left }, 20), 'once it has ended they go');
	ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 20), 'and nothing is left');
	$holder->quit;
}
# The same in the middle: what comes next when a run has gone is locked by hand, and let go without a word.
sql("SELECT outbox.pause('r', aggregate_type => 'a', aggregate_id => 'middle', reason => 'to have many')");
sql("SELECT count(outbox.emit('a', 'middle', 'one', '{}')) FROM generate_series(1, $many)");
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', $many, 60), 'a key is parked');
my $before = $redis->xlen('s');
my $holder = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$holder->query_safe('BEGIN; SELECT id FROM outbox_internal.parked WHERE id = (SELECT id FROM outbox_internal.parked ORDER BY created_at OFFSET 256 LIMIT 1) FOR UPDATE');
sql(q(SELECT outbox.resume('r', aggregate_type => 'a', aggregate_id => 'middle')));
ok(wait_until(sub { $redis->xlen('s') == $before + 256 }, 20), 'what is before the locked one goes');
sleep 3;
is($redis->xlen('s'), $before + 256, 'and no more');
my $pid = $holder->query_safe('SELECT pg_backend_pid()');
ok(wait_for_value($node, "SELECT status || ' ' || (detail ~ '^Process $pid .*idle in transaction.* may have rows of outbox_internal.parked locked') || ' ' || (hint ~ 'pg_terminate_backend\\($pid\\)') FROM outbox.doctor() WHERE \"check\" = 'held'",
	'warning true true', 20), 'doctor() names the session');
$holder->query_safe('COMMIT');
$holder->quit;
ok(wait_until(sub { $redis->xlen('s') == $before + $many }, 20), 'once it is let go the rest goes');
my (%last, $overtaken, %times);
foreach my $entry (@{ $redis->entries('s') })
{
	$times{ $entry->{id} }++;
	$overtaken++ if $entry->{key} !~ /^other/ && ($last{ $entry->{key} } // 0) > $entry->{created_at};
	$last{ $entry->{key} } = $entry->{created_at};
}
is(sql(q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'held')), '0', 'and is silent again');
# A table that is locked against those who write, and a prepared transaction.
$holder = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$pid = $holder->query_safe('SELECT pg_backend_pid()');
$holder->query_safe('BEGIN; LOCK TABLE outbox_internal.log, outbox.route IN SHARE MODE');
sql("BEGIN; SELECT FROM outbox_internal.lane FOR UPDATE; PREPARE TRANSACTION 'it''s held'");
ok(wait_for_value($node, 'SELECT count(*) FROM outbox.doctor() WHERE "check" = \'held\'', '2', 20), 'doctor() has both');
my $day = sql("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')");
like(sql(q(SELECT detail, hint FROM outbox.doctor() WHERE "check" = 'held' AND status = 'problem')),
	qr/^Process $pid \(.*, idle in transaction\) has locked outbox.route, outbox_internal.log, .*outbox_internal.log_$day.* against those who write, .*\|SELECT pg_terminate_backend\($pid\)/, 'the table');
like(sql(q(SELECT detail, hint FROM outbox.doctor() WHERE "check" = 'held' AND status = 'warning')),
	qr/^A prepared transaction may have rows of outbox_internal.lane locked, .*\|ROLLBACK PREPARED 'it''s held' ends it/, 'the prepared one');
$holder->query_safe('COMMIT');
$holder->quit;
sql("ROLLBACK PREPARED 'it''s held'");
is($overtaken // 0, 0, 'each key in its order');
is(scalar(grep { $_ > 1 } values %times), 0, 'each event once');
is(scalar(keys %times), 3 * (2 * $many + 9) - 2 + $many, 'all of them');

no_server_crashed($node);
done_testing();
