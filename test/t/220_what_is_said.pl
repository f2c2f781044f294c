# What operators are told: a pause behind which nothing waits is idle, at a lane, a topic, two of them and a destination, and
# one behind which something waits is not; fifty topics in trouble have a line in the server's log and not fifty, and so has
# their end; of two outages that follow each other closely the time of the last one is told; a Redis user without the rights
# that the check for lost writes needs is told of once, in the log and in doctor(), and not where only lists are written.
# matrix: A14 E-5
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node(conf => "outbox.workers = 2\nlog_min_messages = warning\n");
my $redis = Outbox::Redis->start;
my $small = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub logged { return slurp_file($node->logfile) }
sub lines { my ($pattern) = @_; return scalar(() = logged() =~ /$pattern/g) }
sub said { my ($pattern) = @_; return wait_until(sub { lines($pattern) > 0 }, 60) }
sub idle { my ($seconds) = @_; return sql("SET client_min_messages = error; SELECT outbox.wait_until_idle('$seconds s')") }

# --- a pause with nothing behind it is idle ---
redis_route($node, $redis, 'redis', topic => q('{event_type}'), lanes => 2);
sql(q(SELECT outbox.emit('order', 'k' || i, 'one', '{}') FROM generate_series(1, 10) i));
ok(wait_idle($node), 'all is delivered');
foreach my $pause (q(route => 'redis'), q(route => 'redis', topic => 'one'), q(server => 'redis'), q(route => 'redis', aggregate_type => 'order', aggregate_id => 'k1'))
{
	sql("SELECT outbox.pause($pause, reason => 'later')");
	my $began = time;
	is(idle(60), 't', "nothing waits behind a pause of $pause: idle");
	cmp_ok(time - $began, '<', 45, 'and not at the end of the time');
	sql(q(SELECT outbox.emit('order', 'k1', 'one', '{}')));
	is(idle(1), 'f', 'with an event behind it it is not');
	sql("SELECT outbox.resume($pause)");
	is(idle(60), 't', 'nor is it left so');
}
sql(q(SELECT outbox.pause(route => 'redis', reason => 'all'); SELECT outbox.pause(server => 'redis', reason => 'of it')));
is(idle(60), 't', 'two pauses, one upon the other');
ok(wait_for_value($node, q(SELECT string_agg(DISTINCT state, ',') FROM outbox.lag WHERE side IS NULL), 'paused', 20), 'lanes show it');
is(sql(q(SELECT string_agg(status || ': ' || detail, '; ') FROM outbox.doctor() WHERE "check" IN ('lane', 'destination'))),
	'ok: 2 lanes are paused, see outbox.pause.', 'doctor() does not say that they work, nor that they are in trouble');
sql(q(SELECT outbox.resume(route => 'redis'); SELECT outbox.resume(server => 'redis')));

# A topic that is paused is not to be created.
sql(q(SELECT outbox.pause(route => 'redis', topic => 'one', reason => 'migration')));
sql(q(SELECT outbox.emit('order', 'k1', 'one', '{}')));
ok(wait_for_value($node, q(SELECT count(*) > 0 FROM outbox.lag WHERE side IS NOT NULL), 't', 30), 'a paused topic leaves its lane');
like(sql(q(SELECT detail || ' ' || hint FROM outbox.doctor() WHERE detail LIKE '%"one"%')), qr/^Topic "one" of route "redis" was paused by \w+: migration It stops no other topic\. .*outbox\.resume[^\n]*$/,
	'doctor() of it: one row, with who can let it go');
is(sql(q(SELECT count(*) FROM outbox.doctor() WHERE hint LIKE '%Create it%')), '0', 'and nobody is asked to create it');
sql(q(SELECT outbox.resume(route => 'redis', topic => 'one')));
ok(wait_idle($node), 'idle');

# --- fifty topics at once ---
$redis->command('SET', "many.$_", 'no stream') foreach 1 .. 50;
sql(q(SELECT outbox.emit('order', 'k' || i, 'many.' || i, '{}') FROM generate_series(1, 50) i));
ok(said(qr/WARNING:  outbox: \d+ topics of route "redis" \(such as "many\.\d+", "many\.\d+" and "many\.\d+"\) are in trouble: /), 'many topics in trouble: one line for them');
ok(wait_until(sub { sql(q(SELECT coalesce(sum(cardinality(string_to_array(topic, ','))), 0) FROM outbox.lag WHERE side IS NOT NULL)) >= 45 }, 60), 'they have left their lanes');
like(logged(), qr/topics of route "redis" .* are in trouble: .*\n.*DETAIL:  The error of the first is WRONGTYPE, of class "topic"/, 'which says what it is');
cmp_ok(lines(qr/WARNING:  outbox: .*route "redis".* in trouble/), '<=', 20, 'of 50 topics and two workers no line each');
$redis->command('DEL', map { "many.$_" } 1 .. 50);
ok(wait_idle($node, 90), 'they go on');
ok(said(qr/LOG:  outbox: (?:\d+ topics of route "redis" \(such as .*\) work|topic "many\.\d+" of route "redis" works) again after [\d.]+ s/), 'and that is said');
cmp_ok(lines(qr/LOG:  outbox: .*route "redis".* again after/), '<=', 20, 'not fifty times');

# --- two outages, one soon after the other ---
$redis->stop;
sql(q(SELECT outbox.emit('order', 'k1', 'one', '{}')));
ok(said(qr/WARNING:  outbox: destination "redis" is in trouble/), 'an outage');
sleep 5;    # it lasts
$redis->restart;
ok(wait_for_value($node, q(SELECT state FROM outbox.destination WHERE server = 'redis'), 'closed', 30), 'over');
my $again = time;
$redis->stop;
sql(q(SELECT outbox.emit('order', 'k1', 'one', '{}')));
ok(wait_until(sub { sql(q(SELECT bool_or(error_code IS NOT NULL) FROM outbox.lag WHERE route = 'redis')) eq 't' }, 30), 'another one');
my $before = lines(qr/LOG:  outbox: destination "redis" works again/);
$redis->restart;
ok(wait_until(sub { lines(qr/LOG:  outbox: destination "redis" works again/) > $before }, 60), 'over again');
my $lasted = time - $again;
my ($told) = logged() =~ /.*LOG:  outbox: destination "redis" works again after ([\d.]+) s/s;
cmp_ok($told, '<=', $lasted, "the time of the last outage is told: $told s");
if ($before == 0)
{
	like(logged(), qr/works again after [\d.]+ s\n.*DETAIL:  It was in trouble \d+ times within [\d.]+ s; this is the last of them, and ended [\d.]+ s before this line\./, 'and how many there were');
}

# --- topics in trouble go with their route: nobody says that they work ---
$redis->command('SET', "gone.$_", 'no stream') foreach 1 .. 2;
sql(q(SELECT outbox.create_route('gone', server => 'redis', aggregate_types => '{gone}', topic => 'gone.{aggregate_id}', lanes => 2)));
sql(q(SELECT outbox.emit('gone', i, 'one', '{}') FROM generate_series(1, 2) i));
ok(wait_until(sub { my %in = map { $_ => 1 } logged() =~ /WARNING:  outbox: topic "(gone\.\d)" of route "gone" is in trouble/g; return keys %in == 2 }, 60), 'two topics in trouble');
sql(q(SELECT outbox.drop_route('gone')));
my $dropped = time;

# --- a Redis user who may not ask ---
$small->command('ACL', 'SETUSER', 'writer', 'on', '>secret', '~*', '+xadd', '+rpush', '+ping', '+select', '+auth', '+multi', '+exec', '+discard');
$small->command('ACL', 'SETUSER', 'asker', 'on', '>secret', '~*', '+xadd', '+rpush', '+ping', '+select', '+auth', '+multi', '+exec', '+discard', '+info', '+xinfo', '+xrevrange');
sql(qq(CREATE SERVER $_ FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$small->{port}'))) foreach qw(writes asks lists);
sql(q(CREATE USER MAPPING FOR CURRENT_USER SERVER writes OPTIONS (username 'writer', password 'secret')));
sql(q(CREATE USER MAPPING FOR CURRENT_USER SERVER lists OPTIONS (username 'writer', password 'secret')));
sql(q(CREATE USER MAPPING FOR CURRENT_USER SERVER asks OPTIONS (username 'asker', password 'secret')));
sql(q(SELECT outbox.create_route('writes', server => 'writes', topic => 'writes', lanes => 4)));
sql(q(SELECT outbox.create_route('asks', server => 'asks', topic => 'asks')));
sql(q(SELECT outbox.create_route('lists', server => 'lists', topic => 'lists', options => '{"mode": "list"}')));
sql(q(SELECT outbox.emit('order', 'k' || i, 'one', '{}') FROM generate_series(1, 20) i));
ok(wait_idle($node), 'events arrive without these rights, too');
ok(said(qr/WARNING:  outbox: destination "writes" is used, but the Redis user may not call INFO: if the server loses events/), 'the log says what does not work');
my $doctor = q(SELECT string_agg(status || ': ' || detail, '; ') FROM outbox.doctor() WHERE "check" = 'destination');
ok(wait_until(sub { sql($doctor) =~ /^problem: Destination "writes" works, but NO_LOSS_CHECK: [^;]*; ACL SETUSER \.\.\. \+info \+xinfo \+xrevrange/ }, 20), 'so does doctor()')
	or diag(sql($doctor));
is(sql(q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'destination')), 1, 'in one row, of two workers that use it');
unlike(sql($doctor), qr/"asks"|"lists"/, 'not of a user who may, nor of lists, where nothing is looked for');
$small->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes') foreach 1 .. 3;
sql(q(SELECT outbox.emit('order', 'k' || i, 'one', '{}') FROM generate_series(1, 20) i));
ok(wait_idle($node), 'after new connections');
is(lines(qr/WARNING:  outbox: destination "\w+" is used, but/), 1, 'it is said once, of two workers');

# --- one who may not use transactions ---
$small->command('ACL', 'SETUSER', 'asker', '-multi');
sql(q(SELECT outbox.emit('order', 'k' || i, 'one', '{}') FROM generate_series(1, 20) i)) foreach 1 .. 3;
ok(wait_idle($node), 'events arrive without transactions, too');
ok(wait_until(sub { sql($doctor) =~ /warning: Destination "asks" works, but NO_TRANSACTIONS: the Redis user may not call MULTI, EXEC or DISCARD/ }, 20), 'and doctor() says that it is slower')
	or diag(sql($doctor));
ok(said(qr/WARNING:  outbox: destination "asks" is used, but the Redis user may not call MULTI/), 'so does the log');
$small->command('ACL', 'SETUSER', 'asker', '+multi');
ok(wait_until(sub { sql(q(SELECT outbox.emit('order', 'k1', 'one', '{}'))); return sql($doctor) !~ /NO_TRANSACTIONS/ }, 60), 'until they are allowed again');
sleep 1 while time < $dropped + 18;    # later than the end of trouble is told
is(lines(qr/LOG:  outbox: .*of route "gone" works? again/), 0, 'of a route that was dropped it is not said that its topics work again');
no_server_crashed($node);
done_testing();
