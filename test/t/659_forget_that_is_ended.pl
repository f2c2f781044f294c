# forget(..., undelivered => true) that ends before it has erased: at a lock that somebody has, canceled, half way through a day, with
# its session. What it has not erased is not given up: it waits, is sent, and is told so; what it has erased stays so. Where nothing
# can be put right any more (the session was ended), nothing is told as erased that was not.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'a', topic => q('a'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub came { my ($what) = @_; return scalar grep { /"$what"/ } map { $_->{payload} // () } @{ $redis->entries('a') } }
sub state_of { my ($id) = @_; return sql(qq(SELECT state || coalesce(' ' || error_message, '') FROM outbox.status('$id'))) }
sub emit { my ($key, $what) = @_; return sql(qq(SELECT outbox.emit('person', '$key', 'e', '{"n": "$what"}'))) }
sub kept { my ($id) = @_; return sql("SELECT payload <> '' FROM outbox_internal.log WHERE id = '$id'") }
sub pause_it
{
	sql(q(SELECT outbox.pause('a', reason => 'maintenance')));
	return ok(wait_for_value($node, q(SELECT bool_and(state = 'paused') FROM outbox.lag), 't', 60), 'paused');
}
sub resume_it
{
	sql(q(SELECT outbox.resume('a')));
	return ok(wait_idle($node), 'resumed');
}
sub forget
{
	my ($key) = @_;
	my $call = { out => '' };
	$call->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "CALL outbox.forget('person', '$key', undelivered => true, dry_run => false)" ],
		'<', \undef, '>&', \$call->{out}, IPC::Run::timeout(180));
	return $call;
}
sub end_it { my ($how) = @_; return is(sql("SELECT count(pg_${how}_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'CALL outbox.forget%'"), '1', $how) }

emit('x', 'works');
ok(wait_idle($node), 'the route works');
my $table = sql(q(SELECT tableoid::regclass FROM outbox_internal.log LIMIT 1));

# Somebody has the day's table, as CREATE INDEX has it.
pause_it();
my $id = emit('locked', 'behind a lock');
my $locker = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$locker->query_safe('BEGIN');
$locker->query_safe("LOCK TABLE $table IN SHARE MODE");
my $call = forget('locked');
ok(wait_for_value($node, "SELECT count(*) FROM pg_locks WHERE relation = '$table'::regclass AND NOT granted", '1', 60), 'it waits for the lock');
is(state_of($id), 'paused', 'meanwhile nothing is given up');
end_it('cancel');
$call->{run}->finish;
like($call->{out}, qr/canceling statement due to user request/, 'it says so');
$locker->query_safe('COMMIT');
is(state_of($id), 'paused', 'the event still waits');
is(kept($id), 't', 'with what it says');
is(sql("SELECT count(*) FROM outbox.peek('a', 10) WHERE id = '$id'"), '1', 'and peek() shows it');
resume_it();
is(came('behind a lock'), 1, 'it is sent');
is(state_of($id), 'delivered', 'and told so');

# Canceled when it has noted what it gives up.
pause_it();
$id = emit('canceled', 'when given up');
Outbox::Faults::arm('forget.given_up', 'wait');
$call = forget('canceled');
ok(Outbox::Faults::await_waiting('forget.given_up'), 'it has given up, and not erased');
end_it('cancel');
Outbox::Faults::release('forget.given_up');
$call->{run}->finish;
like($call->{out}, qr/canceling statement due to user request/, 'it says so');
is(state_of($id), 'paused', 'the event waits again');
my (undef, undef, $said) = $node->psql('postgres', "SELECT outbox.wait_for('$id', '10 ms')");
like($said, qr/it is paused/, 'so says wait_for()');
resume_it();
is(came('when given up'), 1, 'it is sent');
is(state_of($id), 'delivered', 'and told so');

# Half way: the first row is erased, the page of the last one is being read.
pause_it();
my $first = emit('half', 'the first');
sql(q(SELECT count(outbox.emit('filler', i::text, 'e', to_jsonb(repeat('f', 500)))) FROM generate_series(1, 100) i));
my $last = emit('half', 'the last');
isnt(sql("SELECT (ctid::text::point)[0] FROM $table WHERE id = '$first'"), sql("SELECT (ctid::text::point)[0] FROM $table WHERE id = '$last'"), 'in two pages');
$locker->query_safe('BEGIN');
$locker->query_safe("DECLARE c CURSOR FOR SELECT id FROM $table WHERE ctid = (SELECT ctid FROM $table WHERE id = '$last')");
$locker->query_safe('FETCH 1 FROM c');
$call = forget('half');
ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL outbox.forget%' AND wait_event_type = 'Extension'), '1', 60), 'it waits for the page');
ok(wait_until(sub { kept($first) eq 'f' }, 60), 'the first is erased');
end_it('cancel');
$call->{run}->finish;
like($call->{out}, qr/canceling statement due to user request/, 'it says so');
$locker->query_safe('COMMIT');
$locker->quit;
is(state_of($first), 'skipped erased by outbox.forget()', 'what is erased is told as erased');
is(state_of($last), 'paused', 'the other one waits');
resume_it();
is(came('the first'), 0, 'the one never comes');
is(came('the last'), 1, 'the other one does');
is(state_of($last), 'delivered', 'and is told so');

# Its session is ended.
pause_it();
$id = emit('ended', 'its session');
Outbox::Faults::arm('forget.given_up', 'wait');
$call = forget('ended');
ok(Outbox::Faults::await_waiting('forget.given_up'), 'it has given up, and not erased');
like(state_of($id), qr/^skipped outbox.forget\(\) was about to erase it/, 'which is what is told');
end_it('terminate');
Outbox::Faults::release('forget.given_up');
$call->{run}->finish;
ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL outbox.forget%'), '0', 60), 'it is gone');
is(kept($id), 't', 'nothing is erased');
unlike(state_of($id), qr/erased by/, 'nor told so');
is(sql(q(CALL outbox.forget('person', 'ended', undelivered => true, dry_run => false))), '1|0', 'another call erases it');
resume_it();
is(came('its session'), 0, 'and it never comes');

no_server_crashed($node);
$node->stop;
done_testing();
