# forget(..., undelivered => true) of what stands still, where a worker starts, a pause ends or the call is cancelled between its look
# and its erasing, or a worker has died before: what may have been sent is not told as never sent. What has stood still all the
# time is.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
my $redis = Outbox::Redis->start(conf => ['appendfsync no']);
$redis->command('ACL', 'SETUSER', 'default', '-info'); # or it would be asked before what is sent, and that would not be in flight
redis_route($node, $redis, 'redis', topic => q('all'), lanes => 2);
sub sql { return $node->safe_psql('postgres', @_) }
sub came { my ($key) = @_; return scalar grep { /"$key"/ } map { $_->{payload} // () } @{ $redis->entries('all') } }
sub state_of { my ($id) = @_; return sql(qq(SELECT state || coalesce(' ' || error_message, '') FROM outbox.status('$id'))) }
sub emit { my ($key) = @_; return sql(qq(SELECT outbox.emit('person', '$key', 'e', '{"n": "$key"}'))) }
sub workers
{
	my ($count) = @_;
	sql("ALTER SYSTEM SET outbox.workers = $count");
	sql('SELECT pg_reload_conf()');
	return wait_for_value($node, q(SELECT count(*) FROM outbox.worker WHERE kind = 'relay' AND state = 'running'), $count, 60);
}
my $doubt = qr/^skipped erased by outbox.forget\(\); .* may have sent it before$/;
my $known = 'skipped erased by outbox.forget()';

# Calls it, does something between its look and its erasing, and returns what it says.
sub forget_while
{
	my ($key, $between) = @_;
	Outbox::Faults::arm('forget.given_up', 'wait');
	my $call = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "CALL outbox.forget('person', '$key', undelivered => true, dry_run => false)" ],
		'<', \undef, '>&', \my $said);
	ok(Outbox::Faults::await_waiting('forget.given_up'), "$key: it has given up, and not erased");
	$between->();
	Outbox::Faults::release('forget.given_up');
	$call->finish;
	return $said;
}

ok(wait_idle($node), 'the route works');

# A worker starts.
ok(workers(0), 'no worker');
my $id = emit('nobody');
unlike(forget_while('nobody', sub { like(state_of($id), qr/it may have been sent$/, 'until it is erased that is open') }), qr/may have been sent/, 'nobody was there all the time');
is(state_of($id), $known, 'and it is told so');
my $second = emit('started');
like(forget_while('started', sub { workers(1); ok(wait_until(sub { came('started') }, 60), 'a worker sends it') }), qr/Of what it gave up, 1 may have been sent before/, 'it says so');
like(state_of($second), $doubt, 'status() says so');
is(state_of($id), $known, 'of the other one it stays');
ok(wait_idle($node), 'idle');
is(came('nobody'), 0, 'which never came');

# A pause ends.
sql(q(SELECT outbox.pause('redis', reason => 'test')));
ok(wait_for_value($node, q(SELECT bool_and(state = 'paused') FROM outbox.lag), 't', 60), 'paused');
$id = emit('paused');
unlike(forget_while('paused', sub { }), qr/may have been sent/, 'paused all the time');
is(state_of($id), $known, 'and it is told so');
$second = emit('resumed');
like(forget_while('resumed', sub { sql(q(SELECT outbox.resume('redis'))); ok(wait_until(sub { came('resumed') }, 60), 'it is sent') }),
	qr/Of what it gave up, 1 may have been sent before/, 'it says so');
like(state_of($second), $doubt, 'status() says so');
ok(wait_idle($node), 'idle');
is(came('paused'), 0, 'what was paused never came');

# The call ends before it has erased.
ok(workers(0), 'no worker');
$id = emit('cancelled');
my $holder = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$holder->query_safe('BEGIN');
$holder->query_safe("DO \$\$ BEGIN EXECUTE format('LOCK TABLE outbox_internal.log_%s IN EXCLUSIVE MODE', to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')); END \$\$");
my (undef, undef, $said) = $node->psql('postgres', q(SET statement_timeout = '1s'; CALL outbox.forget('person', 'cancelled', undelivered => true, dry_run => false)));
like($said, qr/canceling statement due to statement timeout/, 'cancelled');
$holder->query_safe('COMMIT');
$holder->quit;
ok(workers(1) && wait_until(sub { came('cancelled') }, 60), 'it is sent all the same');
ok(wait_idle($node), 'idle');
is(state_of($id), 'delivered', 'and nobody said that it never was');
is(sql(q(CALL outbox.forget('person', 'cancelled', undelivered => true, dry_run => false))) . state_of($id), '1|0delivered', 'another call erases it, and does not know better');

# A worker leaves in good order, without an answer to what it has sent.
$redis->pause;
$id = emit('unanswered');
ok(wait_for_value($node, q(SELECT sum(inflight) FROM outbox.lag), '1', 60), 'in flight');
ok(workers(0) && wait_for_value($node, q(SELECT count(*) FROM outbox.worker WHERE kind = 'relay'), '0', 60), 'the worker leaves');
$redis->cont;
ok(wait_until(sub { came('unanswered') }, 60), 'it was sent');
(undef, undef, $said) = $node->psql('postgres', q(CALL outbox.forget('person', 'unanswered', undelivered => true, dry_run => false)));
like($said, qr/Of what it gave up, 1 may have been sent before/, 'it says so');
like(state_of($id), $doubt, 'status() says so');
ok(workers(1) && wait_idle($node) && workers(0), 'once what it had is answered');
$id = emit('later');
(undef, undef, $said) = $node->psql('postgres', q(CALL outbox.forget('person', 'later', undelivered => true, dry_run => false)));
unlike($said, qr/may have been sent/, 'that is over');
is(state_of($id), $known, 'and it is told so');
ok(workers(1), 'a worker');
emit('before');
ok(wait_until(sub { came('before') }, 60), 'which is connected');

# A worker dies with something in flight, and there is none any more.
$redis->pause;
$id = emit('in flight');
ok(wait_for_value($node, q(SELECT sum(inflight) FROM outbox.lag), '1', 60), 'in flight');
sql('ALTER SYSTEM SET outbox.workers = 0');
$node->stop('immediate');
$redis->cont;
ok(wait_until(sub { came('in flight') }, 60), 'it was sent');
$node->start;
is(sql(q(SELECT count(*) FROM outbox.worker WHERE kind = 'relay' AND state = 'running')), '0', 'no worker');
is(sql("SELECT state, reason FROM outbox.status('$id')"), 'pending|outbox.workers is 0', 'for which status() has the reason');
sql('ALTER SYSTEM SET outbox.enabled = off');
sql('SELECT pg_reload_conf()');
ok(wait_for_value($node, "SELECT reason FROM outbox.status('$id')", 'outbox.enabled is off'), 'and the other one');
(undef, undef, $said) = $node->psql('postgres', q(CALL outbox.forget('person', 'in flight', undelivered => true, dry_run => false)));
like($said, qr/Of what it gave up, 1 may have been sent before/, 'it says so');
like(state_of($id), $doubt, 'status() says so');

$node->stop;
done_testing();
