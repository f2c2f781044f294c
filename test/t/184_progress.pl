# outbox.pg_stat_progress_outbox: who does what, how far it is, how fast and for how long still. Two at once; cancelled in the
# middle, terminated, the server stopped in the middle; a change of lanes that cannot begin; a backlog that is drained and one
# that is not; read by a role that may only look. The session that calls is told the same every few seconds.
# matrix: M3
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', @_) }
sub progress { my ($column, $where) = @_; return "SELECT coalesce(string_agg(($column)::text, ',' ORDER BY command, route, pid), '') FROM outbox.pg_stat_progress_outbox WHERE $where" }
# The first row, if one was seen in so many looks, of a lane that is idle while something waits.
sub first_idle { my ($looks) = @_; for (1 .. $looks) { my $row = sql(q(SELECT * FROM outbox.lag WHERE state = 'idle' AND (pending > 0 OR overdue > 0) LIMIT 1)); return $row if $row ne '' } return }
redis_route($node, $redis, 'redis', topic => q('{event_type}'), aggregate_types => q('{order}'), on_failure => q('skip'), max_attempts => 1);
sql(q(CREATE SERVER calm FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('calm', server => 'calm', aggregate_types => '{calm}'); SELECT outbox.pause('calm', reason => 'a deployment')));
sql(q(CREATE ROLE monitor LOGIN IN ROLE pg_monitor; CREATE ROLE nobody LOGIN; GRANT USAGE ON SCHEMA outbox TO nobody; CREATE ROLE operator LOGIN SUPERUSER));

# --- nothing ---
sql(q(SELECT count(outbox.emit('order', 'k' || i % 10, 'one', '{}')) FROM generate_series(1, 500) i));
ok(wait_idle($node), 'delivered');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox.pg_stat_progress_outbox', '0', 30), 'where nothing goes on there is nothing to see');

# --- dead letters of two topics: two redrives at once ---
sql(q(INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, payload, topic, attempts,
    error_class, error_code, error_message, failed_at)
  SELECT r.id, 0, now() - interval '1 hour' + n * interval '1 second', ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid,
    'order', 'd' || n, 'dead', '{}', CASE n % 2 WHEN 0 THEN 'two' ELSE 'three' END, 10, 'message', 'TOO_LARGE', 'too large', now() - interval '1 minute'
  FROM outbox.route r, generate_series(1, 80) n WHERE r.name = 'redis'));
is(sql('SELECT count(*) FROM outbox.dead_letter'), '80', 'eighty dead letters');
sql(q(SELECT outbox.pause(server => 'redis', reason => 'they stay')));
my %session;
foreach my $topic (qw(two three))
{
	$session{$topic} = $node->background_psql('postgres', extra_params => [ '-U', 'operator' ]);
	$session{$topic}->query_until(qr/begun/, "\\echo begun\nCALL outbox.redrive(topic => '$topic', per_second => 4, batch => 2, dry_run => false);\n");
}
ok(wait_for_value($node, progress("command || ' ' || who || ' ' || phase || ' ' || total", q(done > 3)), 'redrive operator in batches 40,redrive operator in batches 40', 30), 'two redrives, each with who and how many');
is($node->safe_psql('postgres', progress('done BETWEEN 1 AND 40 AND rate BETWEEN 0.5 AND 8 AND time_left > interval \'0\' AND hint ~ \'pg_cancel_backend\'', q(command = 'redrive')), extra_params => [ '-U', 'monitor' ]), 'true,true', 'how far, how fast, for how long still, and how to end it: for whoever may look');
is($node->psql('postgres', 'SELECT * FROM outbox.pg_stat_progress_outbox', extra_params => [ '-U', 'nobody' ]), 3, 'for nobody else');
my ($pid) = split /,/, sql(progress('pid', q(command = 'redrive')));
is(sql("SELECT pg_cancel_backend($pid)"), 't', 'one is cancelled');
ok(wait_for_value($node, progress('command', q(command = 'redrive')), 'redrive', 30), 'and is not seen any more, the other one is');
($pid) = split /,/, sql(progress('pid', q(command = 'redrive')));
ok(wait_until(sub { slurp_file($node->logfile) =~ /NOTICE:  \d+ of 40 dead letters will be tried again\n.*DETAIL:  \d+ a second, \d+ s left\./ }, 30), 'whoever called is told the same every few seconds');
is(sql("SELECT pg_terminate_backend($pid)"), 't', 'the other one is terminated');
ok(wait_for_value($node, progress('command', q(command = 'redrive')), '', 30), 'and gone as well');
eval { $_->quit } foreach values %session;
sql(q(SELECT outbox.resume(server => 'redis')));
ok(wait_for_value($node, q(SELECT count(*) FROM outbox_internal.parked WHERE state <> 'dead'), '0', 60), 'what was begun is done');

# --- a replay: copied, sent at a rate, interrupted by the server's end ---
my ($number) = sql(q(CALL outbox.replay(since => '-infinity', event_type => 'one', route => 'redis', dry_run => false, per_second => 50))) =~ /^(\d+)\|500$/m;
ok($number, 'a replay is begun');
ok(wait_for_value($node, progress(q(route || ' ' || phase || ' ' || total || ' ' || (rate > 0) || ' ' || (done > 20)), q(command = 'replay')), 'redis sending 500 true true', 30), 'what is copied is being sent');
is(sql(progress(q(pid IS NULL AND time_left > interval '0' AND hint = 'SELECT outbox.cancel_replay(NUMBER) ends it.') =~ s/NUMBER/$number/r, q(command = 'replay'))), 'true', 'for how long still');
is(sql(progress(q(rate <= done / extract(epoch FROM clock_timestamp() - since) + 100 AND rate <= 100), q(command = 'replay'))), 'true', 'as fast as it has gone');
sql(q(SELECT outbox.pause('redis', reason => 'the rest of the replay waits')));
ok(wait_for_value($node, q(SELECT bool_or(overdue > 20) FROM outbox.lag WHERE route = 'redis'), 't', 30), 'copies are due');
is(sql(progress(q(phase || ' ' || coalesce(rate::text, 'null') || ' ' || coalesce(time_left::text, 'null') || ' ' || (hint ~ '^paused: the rest of the replay waits[.] SELECT outbox.cancel_replay')), q(command = 'replay'))), 'waits null null true', 'nothing goes: nobody says how long it takes');
$redis->pause;
sql(q(SELECT outbox.resume('redis')));
is(first_idle(10), undef, 'no lane is idle while copies are due');
$redis->cont;
sql("SELECT outbox.cancel_replay($number)");
is(sql(progress('command', q(command = 'replay'))), '', 'cancelled, it is not seen any more');
sql(q(INSERT INTO outbox.replay (who, route, to_route, filter, from_time, to_time, matched, copied, state) VALUES ('operator', 'redis', 'redis', '{}', '-infinity', now(), 1000, 250, 'copying')));
$node->restart;
like(sql(progress(q(phase || ' ' || done || ' ' || total || ' ' || hint), q(command = 'replay'))), qr/^interrupted 250 1000 CALL outbox\.replay\(number => \d+, dry_run => false\) goes on, SELECT outbox\.cancel_replay\(\d+\) ends it\.$/,
	'one that the end of the server interrupted: how far it came, and what to type');
sql(q(UPDATE outbox.replay SET state = 'cancelled' WHERE state <> 'cancelled'));

# --- and one that nobody slows down: what is done only grows, from copying to sending ---
my $copies = $node->background_psql('postgres');
$copies->query_until(qr/begun/, "\\echo begun\nCALL outbox.replay(since => '-infinity', event_type => 'one', route => 'redis', dry_run => false, per_second => 400);\n");
my ($last, $falls) = (0, 0);
ok(wait_until(sub { my $done = sql(progress('done', q(command = 'replay'))); return $last > 0 if $done eq ''; $falls++ if $done < $last; $last = $done; return 0 }, 60), 'a replay is seen until all of it has gone');
is($falls, 0, 'and what is done of it never falls');
eval { $copies->quit };
ok(wait_idle($node), 'delivered');

# --- another number of lanes, while a topic is away ---
$redis->command('SET', 'bad', 'no stream');
sql(q(SELECT outbox.emit('order', 'k1', 'bad', '{}')));
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.lag WHERE side IS NOT NULL), '1', 60), 'a topic is away');
sql(q(SELECT outbox.alter_route('redis', lanes => 3)));
is(sql(progress(q(route || ' ' || phase || ' ' || total || ' ' || (hint ~ 'no topic has left its lane')), q(command = 'lane change'))), 'redis waits 1 true', 'a change that cannot begin, and why');
$redis->command('DEL', 'bad');
ok(wait_for_value($node, progress('command', q(command = 'lane change')), '', 90), 'done, it is not seen any more');
is(sql(q(SELECT lanes FROM outbox.route WHERE name = 'redis')), '3', 'and so it was');

# --- a few events that are all in flight, and some behind a pause that was there before: seen until they are acknowledged, without
# an end that nobody can foresee. What was delivered just before is no part of it ---
sub drains { my ($columns, $route) = @_; return progress($columns, "command = 'drain' AND route = '$route'") }
my $told = q(phase || ' ' || done || ' ' || total || ' ' || coalesce(rate::text, 'null') || ' ' || coalesce(time_left::text, 'null') || ' ' || hint);
sql(q(SELECT outbox.emit('order', 'k1', 'hello', '{}')));
ok(wait_idle($node), 'an event is delivered just before');
my $began = sql('SELECT clock_timestamp()');
$redis->stop;
sql(q(SET outbox.lone_emit = allow; SELECT count(outbox.emit(CASE WHEN i > 5 THEN 'calm' ELSE 'order' END, 'k' || i, 'one', '{}')) FROM generate_series(1, 55) i));
my $few = drains("$told ~ '^waits 0 5 null null CONNECT: .* outbox.lag'", 'redis');
ok(wait_for_value($node, $few, 'true', 60), 'all in flight, and seen, with what is in the way') or diag(sql('SELECT * FROM outbox.pg_stat_progress_outbox'));
ok(wait_for_value($node, drains("$told ~ '^waits 0 50 null null paused: a deployment. '", 'calm'), 'true', 60), 'behind a pause, with its reason') or diag(sql('SELECT * FROM outbox.pg_stat_progress_outbox'));
is(sql(drains("since BETWEEN timestamptz '$began' AND '$began'::timestamptz + interval '10 s'", $_)), 'true', "$_: since they wait, not since the pause or what was before") foreach qw(redis calm);
sleep 3;    # they must not disappear while they wait
is(sql($few), 'true', 'and still');
$redis->restart;
sql(q(SELECT outbox.resume('calm')));
ok(wait_for_value($node, progress('command', 'true'), '', 120), 'until they are acknowledged');

# --- a topic that has left its lane: its events wait, while all others are delivered ---
$redis->command('SET', 'bad', 'no stream');
sql(q(SELECT count(outbox.emit('order', 'k' || i % 7, CASE WHEN i % 100 = 0 THEN 'bad' ELSE 'one' END, '{}')) FROM generate_series(1, 2000) i));
ok(wait_for_value($node, q(SELECT (SELECT sum(pending) FROM outbox.lag) + (SELECT count(*) FROM outbox_internal.parked WHERE state <> 'dead')), '20', 60), 'twenty events of a topic that is away');
ok(wait_for_value($node, drains(q(phase || ' ' || (total - done = (SELECT sum(l.pending) FROM outbox.lag l)) || ' ' || (done <= 1985) || ' ' || total_estimated || ' ' || (time_left IS NULL) || ' ' || (hint ~ 'WRONGTYPE')), 'redis'), 'waits true true false true true', 60), 'are not done, and nobody says when they will be: of what waits, and the five of just before')
  or diag(sql('SELECT * FROM outbox.pg_stat_progress_outbox'));
$redis->command('DEL', 'bad');
ok(wait_for_value($node, progress('command', 'true'), '', 120), 'the topic is back, and they are delivered');
$redis->stop;
sql(q(SELECT count(outbox.emit('order', 'k' || i % 1000, 'one', '{}')) FROM generate_series(1, 20000) i));
ok(wait_for_value($node, progress(q(route || ' ' || phase || ' ' || (hint ~ 'outbox.lag')), q(command = 'drain' AND total BETWEEN 3000 AND 25000)), 'redis waits true', 60), 'a backlog that waits')
	or diag(sql('SELECT * FROM outbox.pg_stat_progress_outbox'));
$redis->restart;
ok(wait_for_value($node, progress('command', 'true'), '', 120), 'it is drained');
no_server_crashed($node);
done_testing();
