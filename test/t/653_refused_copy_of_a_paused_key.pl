# A copy of a replay that was refused has no key, and so waits behind nothing. pause() of its key keeps it back, also before
# wait_until_idle(), and resume() lets it go; also one that pause() of 0.1 has left blocked.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.max_payload_size = '4MB'\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('s'), max_attempts => 1000, backoff_base => q('1 s'), backoff_cap => q('2 s'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub parked { my ($what) = @_; return sql("SELECT $what FROM outbox_internal.parked") }
my $pause = q{SELECT outbox.pause('r', aggregate_type => 'order', aggregate_id => '42', reason => 'the test')};
my $resume = q{SELECT outbox.resume('r', aggregate_type => 'order', aggregate_id => '42')};
my $is_idle = q{SELECT outbox.wait_until_idle('2 s', include_delayed => true)};

my $id = sql(q{SELECT outbox.emit_text('order', '42', 'x', repeat('x', 2000000))});
ok(wait_idle($node), 'delivered');

# Refuses a copy of it, and pauses its key while no worker has it in hand.
sub refuse_and_pause
{
	$redis->command('CONFIG', 'SET', 'client-query-buffer-limit', '1mb');
	sql(qq{CALL outbox.replay(since => '-infinity', ids => '{$id}', route => 'r', dry_run => false)});
	ok(wait_for_value($node, q{SELECT state || ' ' || (order_key IS NULL) || ' ' || (attempts > 0) FROM outbox_internal.parked}, 'retrying true true', 60),
		'a copy is refused, and has no key any more');
	Outbox::Faults::arm('parked.claim.before', 'wait');
	ok(Outbox::Faults::await_waiting('parked.claim.before', 60), 'no worker has it in hand');
	sql($pause);
	Outbox::Faults::release('parked.claim.before');
	return;
}

# Until it has been given back twice with so many attempts: the worker knows of the pause.
sub kept_back
{
	my ($attempts, $due_at, $times) = (-1, '', 0);
	return wait_until(sub {
		my ($state, $attempts_now, $due_now) = split /\|/, parked(q{state || '|' || attempts || '|' || coalesce(due_at::text, '')});
		return 0 if $state ne 'retrying';
		$times = $attempts_now == $attempts ? $times + ($due_now ne $due_at) : 0;
		($attempts, $due_at) = ($attempts_now, $due_now);
		return $times == 2;
	}, 60);
}

refuse_and_pause();
ok(kept_back(), 'it is kept back');
is(sql("SELECT state || ' ' || reason FROM outbox.status('$id') WHERE replay <> 0"), 'retrying the test', 'status() says why');
is(sql($is_idle), 'f', 'it is waited for');
$redis->command('CONFIG', 'SET', 'client-query-buffer-limit', '1gb');
sql(q{SELECT outbox.emit_text('order', 'other', 'x', 'other')});
ok(wait_until(sub { $redis->xlen('s') == 2 }, 60), 'another key goes');
is(parked('count(*)'), 1, 'it does not');
sql($resume);
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', 0, 60), 'it goes when its key is resumed');
is($redis->xlen('s'), 3, 'it has arrived');
ok(sql(q{SELECT outbox.wait_until_idle('60 s', include_delayed => true)}) eq 't', 'nothing is waited for any more');

refuse_and_pause();
ok(kept_back(), 'it is kept back again');
$redis->command('CONFIG', 'SET', 'client-query-buffer-limit', '1gb');
sql(q{SET outbox.allow_loss = on; UPDATE outbox_internal.parked SET state = 'blocked', due_at = NULL, sender = NULL});
sql($resume);
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', 0, 60), 'one that 0.1 has left blocked goes, too');
is($redis->xlen('s'), 4, 'it has arrived');
no_server_crashed($node);
done_testing();
