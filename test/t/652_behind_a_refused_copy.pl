# A copy of a replay that is refused gives its key up: what has come to wait behind it while it was sent goes then, whether
# the copy is to be tried again or is a dead letter, and whatever the route's on_failure says.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.max_payload_size = '4MB'\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'retried', topic => q('retried'), aggregate_types => q('{retried}'), max_attempts => 1000,
	backoff_base => q('1 s'), backoff_cap => q('2 s'));
redis_route($node, $redis, 'dead', topic => q('dead'), aggregate_types => q('{dead}'), on_failure => q('block'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

sub comes
{
	my ($query, $wanted, $what) = @_;
	return ok(wait_for_value($node, $query, $wanted, 60), $what);
}

# The copy of the event $id of the route is in hand, with its key, while Redis hangs. What is emitted now waits behind it,
# and goes when Redis has refused the copy, which is then in state $state.
sub let_refuse
{
	my ($route, $id, $state) = @_;
	comes(q{SELECT sender IS NOT NULL AND order_key IS NOT NULL FROM outbox_internal.parked}, 't', "$route: the copy is being sent");
	my $live = sql(qq{SELECT outbox.emit_text('$route', '42', 'live', 'live')});
	comes(qq{SELECT state FROM outbox_internal.parked WHERE id = '$live'}, 'blocked', "$route: a live event waits behind it");
	$redis->cont;
	comes(qq{SELECT state || ' ' || (order_key IS NULL) FROM outbox_internal.parked WHERE id = '$id'}, "$state true",
		"$route: the copy is refused, and has no key any more");
	comes(qq{SELECT count(*) FROM outbox_internal.parked WHERE id = '$live'}, 0, "$route: the live event goes on");
	is($redis->xlen($route), 2, "$route: it has arrived");
	sql(qq{SELECT outbox.emit_text('$route', '42', 'later', 'later')});
	ok(wait_until(sub { $redis->xlen($route) == 3 }, 60), "$route: so does a later one");
	return;
}

my ($id) = sql(q{SELECT outbox.emit_text('retried', '42', 'old', repeat('x', 2000000))});
ok(wait_idle($node), 'retried: delivered');
$redis->command('CONFIG', 'SET', 'client-query-buffer-limit', '1mb');
sql(q{SELECT outbox.pause('retried', aggregate_type => 'retried', aggregate_id => '42', reason => 'the test')});
sql(qq{CALL outbox.replay(since => '-infinity', ids => '{$id}', route => 'retried', dry_run => false)});
comes('SELECT state FROM outbox_internal.parked', 'blocked', 'retried: the copy waits, its key is paused');
$redis->pause;
sql(q{SELECT outbox.resume('retried', aggregate_type => 'retried', aggregate_id => '42')});
let_refuse('retried', $id, 'retrying');
$redis->command('CONFIG', 'SET', 'client-query-buffer-limit', '1gb');
comes('SELECT count(*) FROM outbox_internal.parked', 0, 'retried: the copy goes once it is taken');
is($redis->xlen('retried'), 4, 'retried: all has arrived');

$id = sql(q{SELECT outbox.emit_text('dead', '42', 'old', repeat('x', 2000000))});
ok(wait_idle($node), 'dead: delivered');
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', '1048576');
sql(qq{CALL outbox.replay(since => '-infinity', ids => '{$id}', route => 'dead', dry_run => false)});
comes('SELECT state FROM outbox_internal.parked', 'dead', 'dead: the copy is a dead letter');
$redis->pause;
sql(q{CALL outbox.redrive('dead', dry_run => false)});
let_refuse('dead', $id, 'dead');
ok(wait_idle($node), 'nothing waits');
no_server_crashed($node);
done_testing();
