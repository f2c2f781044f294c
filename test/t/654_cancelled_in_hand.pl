# What a worker has in hand of a replay when that is cancelled is told of. It is sent no more once it has been given back: the
# worker drops it, or cancel_replay() when it is called again. Live events of its keys go on.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('s'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub parked { my ($what) = @_; return sql("SELECT $what FROM outbox_internal.parked") }

# What it returns, and what it says.
sub cancel
{
	my ($number) = @_;
	my ($status, $out, $said) = $node->psql('postgres', "SELECT outbox.cancel_replay($number, 'the test')");
	is($status, 0, "replay $number: cancelled");
	return ($out, $said);
}

my $sent = 300;
sql(qq{SELECT count(outbox.emit('o', (i % 20)::text, 'e', to_jsonb(i))) FROM generate_series(1, $sent) i});
ok(wait_idle($node), 'all are delivered');
is($redis->xlen('s'), $sent, 'once');

# A worker has claimed copies of the replay, which is then cancelled. It gives them back while the route is paused: the
# destination takes nothing, and goes.
sub cancel_in_hand
{
	my ($number) = @_;
	$redis->pause;
	Outbox::Faults::arm('parked.claim.after', 'wait');
	sql(q{CALL outbox.replay(since => '-infinity', route => 'r', per_second => NULL, dry_run => false)});
	# The claim may have been of other things, or of nothing.
	ok(wait_until(sub {
		return 1 if parked('count(*) FILTER (WHERE sender IS NOT NULL) > 0') eq 't';
		Outbox::Faults::let_pass('parked.claim.after') if Outbox::Faults::waiting('parked.claim.after');
		return 0;
	}, 60), "replay $number: copies are in hand");
	my $all = parked('count(*)');
	my $in_hand = parked('count(sender)');
	my ($gone, $said) = cancel($number);
	is($gone, $all - $in_hand, "replay $number: the others are gone");
	like($said, qr/NOTICE:  of replay $number in hand just now: $in_hand events?\n/, "replay $number: it says how many are in hand");
	is(parked('count(*)'), $in_hand, "replay $number: these are there");
	($gone, $said) = cancel($number);
	is($gone, 0, "replay $number: a second call changes nothing");
	like($said, qr/in hand just now: $in_hand event/, "replay $number: it says so again");
	is(sql(q{SELECT detail ->> 'in_hand' FROM outbox.audit WHERE action = 'cancel_replay' ORDER BY at DESC LIMIT 1}), $in_hand, "replay $number: so does the audit");
	sql(q{SELECT outbox.pause('r', reason => 'the test')});
	Outbox::Faults::release('parked.claim.after');
	$redis->kill9;
	ok(wait_until(sub { parked('count(sender)') == 0 }, 120), "replay $number: they are given back");
	is(parked('count(*)'), $in_hand, "replay $number: and wait");
	$redis->restart;
	return $in_hand;
}

cancel_in_hand(1);
sql(q{SELECT outbox.resume('r')});
sql(q{SELECT count(outbox.emit('o', i::text, 'e', '"live"')) FROM generate_series(0, 19) i});
ok(wait_idle($node), 'replay 1: live events of all keys go');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', 0, 60), 'replay 1: nothing is left');
$sent += 20;
is($redis->xlen('s'), $sent, 'replay 1: nothing of it was sent');
my ($gone, $said) = cancel(1);
like($said, qr/replay 1 is cancelled already/, 'replay 1: and nothing of it waits');

my $in_hand = cancel_in_hand(2);
($gone, $said) = cancel(2);
is($gone, $in_hand, 'replay 2: cancelled once more, they are gone');
is($said, '', 'replay 2: without a word');
sql(q{SELECT outbox.resume('r')});
sql(q{SELECT count(outbox.emit('o', i::text, 'e', '"live"')) FROM generate_series(0, 19) i});
ok(wait_idle($node), 'replay 2: live events go');
$sent += 20;
is($redis->xlen('s'), $sent, 'replay 2: nothing of it was sent');
no_server_crashed($node);
done_testing();
