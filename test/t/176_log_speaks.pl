# The server's log tells of trouble outside of the server, at the default level: one line when it begins and one when it is
# over, for a destination that is down and one that refuses the password, for two streams at once that take nothing, and of
# dead letters one line a minute and route with their number; with two workers, and while all else flows. What lasts
# no second is not worth a line.
# matrix: A14 R25
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 2\nlog_min_messages = warning\n");
my $redis = Outbox::Redis->start;
my $other = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $mark = 0;
sub lines { my ($pattern) = @_; return scalar(() = substr(slurp_file($node->logfile), $mark) =~ /$pattern/g) }
sub said { my ($n, $pattern, $what) = @_; wait_until(sub { lines($pattern) >= $n }, 40); return is(lines($pattern), $n, $what) }

redis_route($node, $redis, 'a', topic => q('a.{event_type}'), lanes => 4, on_failure => q('skip'), max_attempts => 1);
sql(qq(CREATE SERVER other FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$other->{port}')));
sql(q(SELECT outbox.create_route('b', server => 'other', topic => 'b.{event_type}', lanes => 4)));
emit_counted($node, 'order', [ 'k1', 'k2', 'k3', 'k4', 'k5', 'k6', 'k7', 'k8' ], 1, 80);
ok(wait_idle($node), 'all is well');
is(lines('WARNING:  outbox: (destination|topic|route)'), 0, 'and nothing is said');

# --- a destination is down, with two workers ---
$other->stop;
emit_counted($node, 'order', [ 'k1', 'k2', 'k3', 'k4', 'k5', 'k6', 'k7', 'k8' ], 81, 160);
said(1, qr/WARNING:  outbox: destination "other" is in trouble: /, 'a destination that is down: one line, of two workers');
is(lines(qr/destination "redis"/), 0, 'of the other one none');
$other->restart;
said(1, qr/LOG:  outbox: destination "other" works again after [\d.]+ s\n.*DETAIL:  Its trouble ended [5-9]\.\d s before this line\./, 'and one when it is back');
ok(wait_idle($node), 'its events have followed');

# --- again, and for another reason ---
$other->command('CONFIG', 'SET', 'requirepass', 'secret');
$other->{password} = 'secret';
$other->command('CLIENT', 'KILL', 'TYPE', 'normal');
emit_counted($node, 'order', ['k1'], 161, 162);
said(2, qr/WARNING:  outbox: destination "other" is in trouble: /, 'in trouble again: one line more');
like(slurp_file($node->logfile), qr/destination "other" is in trouble: .*\n.*DETAIL:  The error is [A-Z_]+, of class "config"\..*\n.*HINT:  Correct an option/, 'which says that somebody has to do something');
sql(q(CREATE USER MAPPING FOR CURRENT_USER SERVER other OPTIONS (password 'secret')));
said(2, qr/LOG:  outbox: destination "other" works again/, 'and back again');

# --- it changes while it lasts: down, then back with a password that is not ours ---
$other->stop;
emit_counted($node, 'order', ['k1'], 163, 164);
said(3, qr/WARNING:  outbox: destination "other" is in trouble: /, 'down again');
my $down_at = time;
PostgreSQL::Test::Utils::append_to_file("$other->{dir}/redis.conf", "requirepass another\n");
$other->restart;
$other->{password} = 'another';
wait_until(sub { lines(qr/DETAIL:  The error is [A-Z_]+, of class "config"/) >= 2 }, 50);
is(lines(qr/WARNING:  outbox: destination "other" is in trouble: /), 4, 'what it is now has a line of its own');
cmp_ok(time - $down_at, '<', 45, 'soon, and not after a minute');
is(lines(qr/DETAIL:  The error is [A-Z_]+, of class "config"/), 2, 'of class config');
$other->command('CONFIG', 'SET', 'requirepass', 'secret');
$other->{password} = 'secret';
$other->forget;
said(3, qr/LOG:  outbox: destination "other" works again/, 'and back again');

# --- two streams take nothing ---
$redis->command('SET', 'a.bad1', 'no stream');
$redis->command('SET', 'a.bad2', 'no stream');
sql(qq(SELECT outbox.emit('order', 'k' || i, 'bad' || (1 + i % 2), '{}') FROM generate_series(1, 20) i));
foreach my $topic (qw(a.bad1 a.bad2))
{
	wait_until(sub { lines(qr/WARNING:  outbox: topic "\Q$topic\E" of route "a" is in trouble/) > 0 }, 40);
	is(lines(qr/WARNING:  outbox: topic "\Q$topic\E" of route "a" is in trouble/), 1, "$topic: a line");
}
# Both workers have it: what the one says the other does not, in a minute or never.
ok(wait_for_value($node, q(SELECT count(DISTINCT d.worker) FROM (SELECT l.owner AS worker FROM outbox_internal.lane l JOIN outbox_internal.side_lane s USING (route_id, lane)) d), '2', 60), 'both workers see it');
sleep 4;    # longer than it takes a worker to say what it sees
is(lines(qr/WARNING:  outbox: topic "a\.bad\d" of route "a" is in trouble/), 2, 'and each is told once, whichever worker sees it');
unlike(substr(slurp_file($node->logfile), $mark), qr/other topics flow/, 'of others, which nobody has looked at, nothing is said');
$redis->command('DEL', 'a.bad1');
wait_until(sub { lines(qr/LOG:  outbox: topic "a\.bad1" of route "a" works again/) > 0 }, 40);
is(lines(qr/LOG:  outbox: topic "a\.bad1" of route "a" works again/), 1, 'the one is back, once it is for both');
is(lines(qr/LOG:  outbox: topic "a\.bad2" of route "a" works again/), 0, 'the other one not');
my $long_ago = time + 12;    # by then nobody gathers lines of the route any more
wait_until(sub { time >= $long_ago }, 30);
$redis->command('DEL', 'a.bad2');
ok(wait_idle($node), 'all is delivered in the end');
wait_until(sub { lines(qr/LOG:  outbox: topic "a\.bad2" of route "a" works again/) > 0 }, 40);
sleep 8;    # the other worker has seen it by then, too
is(lines(qr/LOG:  outbox: topic "a\.bad$_" of route "a" works again/), 1, $_ == 1 ? 'the one was told once' : 'the other one long after, by the name of its route') foreach 1, 2;
is(lines(qr/of route ""/), 0, 'and never without');

# --- a server forgets what it had, and one of two workers notices that when the other one is long done with it ---
my $forgets = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
sql(qq(CREATE SERVER forgets FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$forgets->{port}')));
sql(q(SELECT outbox.create_route('c', server => 'forgets', topic => 'c', aggregate_types => '{c}', lanes => 4)));
sql(q(SELECT count(outbox.emit('c', 'k' || i, 'c', '{}')) FROM generate_series(1, 80) i));
ok(wait_idle($node), 'delivered by both');
my ($late) = relay_pids($node);
kill STOP => $late;
$forgets->kill9;
$forgets->restart;
said(1, qr/WARNING:  outbox: destination "forgets" is in trouble: .* lacks what was acknowledged/, 'the first one says what is missing');
said(1, qr/LOG:  outbox: destination "forgets" works again/, 'and is done with it');
kill CONT => $late;
ok(wait_until(sub { sql(q(SELECT count(DISTINCT detail ->> 'lane') FROM outbox.audit WHERE action = 'rewind' AND route = 'c')) eq '4' }, 60), 'so is the other one') or diag(sql('SELECT * FROM outbox.audit'));
ok(wait_idle($node), 'all of it is there again');
sleep 8;    # longer than it takes to say that it works again
is(lines(qr/destination "forgets" is in trouble/), 1, 'one line of what is missing');
is(lines(qr/destination "forgets" works again/), 1, 'and one of its end');

# --- dead letters ---
sql(q(ALTER SYSTEM SET outbox.max_payload_size = '4MB'));
sql(q(SELECT pg_reload_conf()));
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', '1048576');
sql(q(SELECT outbox.emit_text('order', 'k1', 'big', repeat('x', 1200000)) FROM generate_series(1, 3)));
if (wait_until(sub { sql('SELECT count(*) FROM outbox.dead_letter') eq '3' }, 30))
{
	wait_until(sub { lines(qr/WARNING:  outbox: \d+ events? of route "a" became/) > 0 }, 20);
	my $n = lines(qr/WARNING:  outbox: \d+ events? of route "a" became/);
	ok($n >= 1 && $n <= 2, "dead letters: a line, of each worker at most: $n");
}
else { fail('three dead letters') or diag(sql('SELECT * FROM outbox_internal.parked')) }
unlike(slurp_file($node->logfile), qr/xxxxxxxx/, 'no payload is in it');
no_server_crashed($node);
done_testing();
