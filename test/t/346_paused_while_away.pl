# A destination that is away is paused: that is what doctor() says, nothing counts as in flight, and a restart of the server
# warns of no trouble of it. What certainly was not written is no possible duplicate.
# matrix: D19
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'main', topic => q('events'));
sub figure { my ($name) = @_; return $node->safe_psql('postgres', "SELECT sum(value) FROM outbox.metrics() WHERE name = 'outbox_$name'") }
sub emit { my ($count) = @_; $node->safe_psql('postgres', "SELECT count(outbox.emit('order', i % 5, 'x', '{}')) FROM generate_series(1, $count) i"); return }

# --- refused: each command has its answer ---
$redis->command('SET', 'events', 'a string');
emit(70);
ok(wait_for_value($node, q{SELECT sum(value) > 0 FROM outbox.metrics() WHERE name = 'outbox_publish_failures_total'}, 't'), 'the topic refuses what comes');
is(figure('possible_duplicates_total'), 0, 'nothing of that may arrive twice');
$redis->command('DEL', 'events');
ok(wait_idle($node), 'then it takes all');
is($redis->xlen('events'), 70, 'once');

# --- away, and paused ---
$redis->stop;
emit(30);
ok(wait_for_value($node, q{SELECT count(*) FROM outbox.destination WHERE error_code IS NOT NULL}, '1'), 'it is away');
ok($node->wait_for_log(qr/WARNING:.*destination "main" is in trouble/), 'the log tells of it');
foreach my $what (q{route => 'main'}, q{server => 'main'})
{
	$node->safe_psql('postgres', "SELECT outbox.pause($what, reason => 'an upgrade')");
	ok(wait_for_value($node, 'SELECT inflight FROM outbox.lag', '0'), "$what: nothing is in flight");
	is(figure('inflight_events'), 0, 'by the figure, too');
	my $hints = q{SELECT count(*) FILTER (WHERE hint ~ 'outbox\.resume\(\)') || ' of ' || count(*) FROM outbox.doctor() WHERE "check" IN ('lane', 'destination') AND status <> 'ok'};
	ok(wait_until(sub { my ($said, $all) = split / of /, $node->safe_psql('postgres', $hints); return $said == $all }, 60), 'doctor() names resume()')
	  or diag($node->safe_psql('postgres', 'SELECT * FROM outbox.doctor()'));
	unlike($node->safe_psql('postgres', 'SELECT hint FROM outbox.doctor()'), qr/right now/, 'and does not say that it is tried');
	$node->safe_psql('postgres', "SELECT outbox.resume($what)") if $what =~ /route/;
}
my $from = -s $node->logfile;
$node->restart;
ok(wait_for_value($node, q{SELECT owned FROM (SELECT count(*) AS owned FROM outbox.destination WHERE workers = 1) d}, '1'), 'a worker has it again');
$node->safe_psql('postgres', q{CREATE SERVER away FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');
	SET outbox.test_new_routes = off; SELECT outbox.create_route('other', server => 'away', topic => 'other')});
ok($node->wait_for_log(qr/WARNING:.*destination "away" is in trouble/, $from), 'of another one that is away the log tells');
unlike(substr(slurp_file($node->logfile), $from), qr/destination "main" is in trouble/, 'of the paused one it does not');
$redis->restart;
$node->safe_psql('postgres', q{SELECT outbox.drop_route('other'); SELECT outbox.resume(server => 'main')});
ok(wait_idle($node, 90), 'resumed, it delivers');
is($redis->xlen('events'), 100, 'all of it, once');
no_server_crashed($node);
done_testing();
