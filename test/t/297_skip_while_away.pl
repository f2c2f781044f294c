# skip() while the destination is away, and while a topic is in trouble: what is in a worker's hands, and what its lane does not come
# to, is refused with what is in the way and what to do; who does that is rid of it, and nothing of it arrives.
# matrix: R77
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
my $redis = Outbox::Redis->start(conf => ['appendfsync no']);
redis_route($node, $redis, 'redis', topic => q('{aggregate_type}'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub state_of { my ($id) = @_; return sql("SELECT state FROM outbox.status('$id')") }
my $said;
sub skip { my ($id) = @_; my ($status, $out); ($status, $out, $said) = $node->psql('postgres', "SELECT outbox.skip('$id', 'ticket 4711')"); return $out eq '1' }
# An event that is kept for its time; due() lets that time come, so that its worker has had it in time on a slow machine, too.
sub scheduled {
	my ($type) = @_;
	my $id = sql("SELECT outbox.emit('$type', 'k', 'e', '{}', deliver_at => now() + interval '1 hour')");
	ok(wait_for_value($node, "SELECT state FROM outbox.status('$id')", 'scheduled', 60), "$type: kept for its time");
	return $id;
}
sub due { return sql(q{SET outbox.allow_loss = on; UPDATE outbox_internal.parked SET due_at = clock_timestamp() WHERE state = 'scheduled'}) }
# A try that has nothing to skip, taken back.
sub refused { my ($id, $why) = @_; (undef, undef, $said) = $node->psql('postgres', "BEGIN; SELECT outbox.skip('$id', 'ticket 4711'); ROLLBACK"); return $said =~ $why }
ok(wait_idle($node), 'the route works');

# The destination is away; what is due is tried again and again, and in the worker's hands for most of the time.
my $due = scheduled('away');
$redis->stop;
due();
ok(wait_until(sub { refused($due, qr/is being sent just now[\s\S]*CONNECT/) }, 60), 'it is refused, and why') or diag $said;
like($said, qr/HINT: .*Pause the route with outbox.pause\(\)/, 'with what to do');
sql(q(SELECT outbox.pause('redis', reason => 'ticket 4711')));
ok(wait_until(sub { skip($due) }, 30), 'that done, it is skipped') or diag $said;
is(state_of($due), 'skipped', 'as status() says');
$redis->restart;
sql(q(SELECT outbox.resume('redis')));
ok(wait_idle($node), 'it is back');
is($redis->xlen('away'), 0, 'nothing came of it');

# It takes what it gets, and answers nothing. Nobody can know what becomes of what it got.
my $silent = scheduled('silent');
$redis->pause;
due();
ok(wait_until(sub { refused($silent, qr/is being sent just now[\s\S]*TIMEOUT.*may have arrived/) }, 60), 'it is refused, and why') or diag $said;
sql(q(SELECT outbox.pause('redis', reason => 'ticket 4711')));
ok(wait_until(sub { skip($silent) }, 30), 'skipped, once it is given back') or diag $said;
sql(q(SELECT outbox.resume('redis')));
$redis->cont;
ok(wait_idle($node), 'it answers');

# A topic is in trouble: its lane does not come to what waits in the log.
$redis->command('SET', 'bad', 'not a stream');
my @ids = split /\n/, sql(q(SELECT outbox.emit('bad', 'k' || n, 'e', format('{"n": %s}', n)::jsonb) FROM generate_series(1, 5) n));
ok(wait_until(sub { refused($ids[4], qr/its lane is in trouble: WRONGTYPE/) }, 30), 'it is refused, and why') or diag $said;
like($said, qr/HINT: +Pause its key .* when that trouble is over/, 'with what to wait for');
sql(q(SELECT outbox.pause('redis', aggregate_type => 'bad', aggregate_id => 'k5', reason => 'ticket 4711')));
ok(wait_until(sub { refused($ids[4], qr/HINT: +Its key is paused; leave it so/) }, 30), 'paused, it is to be left so') or diag $said;
like($said, qr/outbox\.forget\(/, 'and what acts at once');
unlike($said, qr/outbox\.resume/, 'nothing else is to be done');
sql(q(SELECT outbox.pause('redis', reason => 'ticket 4711')));
ok(refused($ids[4], qr/HINT: +Its key is paused; leave it so.*outbox\.resume\(\) has let route/), 'the route is paused, too: it has to be resumed') or diag $said;
sql(q(SELECT outbox.resume('redis')));
sql(q(CALL outbox.forget('bad', 'k4', undelivered => true, dry_run => false)));
is(state_of($ids[3]), 'skipped', 'that does');
$redis->command('DEL', 'bad');
ok(wait_for_value($node, "SELECT state FROM outbox.status('$ids[4]')", 'blocked', 120), 'the trouble is over, and it is parked');
ok(skip($ids[4]), 'and skipped') or diag $said;
sql(q(SELECT outbox.resume('redis', aggregate_type => 'bad', aggregate_id => 'k5')));
ok(wait_idle($node), 'resumed');
is(join(' ', map { $_->{payload} } @{ $redis->entries('bad') }), '{"n": 1} {"n": 2} {"n": 3}', 'the others have come, and nothing else');

no_server_crashed($node);
$node->stop;
done_testing();
