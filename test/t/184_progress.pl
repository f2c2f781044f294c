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
redis_route($node, $redis, 'redis', topic => q('{event_type}'), aggregate_types => q('{order}'), on_failure => q('skip'), max_attempts => 1);
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
  FROM outbox.route r, generate_series(1, 80) n));
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
ok(wait_for_value($node, progress(q(route || ' ' || phase || ' ' || total || ' ' || rate), q(command = 'replay')), 'redis sending 500 50.0', 30), 'what is copied is being sent');
is(sql(progress(q(pid IS NULL AND time_left BETWEEN interval '0' AND interval '11 s' AND hint = 'SELECT outbox.cancel_replay(NUMBER) ends it.') =~ s/NUMBER/$number/r, q(command = 'replay'))), 'true', 'for how long still');
sql("SELECT outbox.cancel_replay($number)");
is(sql(progress('command', q(command = 'replay'))), '', 'cancelled, it is not seen any more');
sql(q(INSERT INTO outbox.replay (who, route, to_route, filter, from_time, to_time, matched, copied, state) VALUES ('operator', 'redis', 'redis', '{}', '-infinity', now(), 1000, 250, 'copying')));
$node->restart;
like(sql(progress(q(phase || ' ' || done || ' ' || total || ' ' || hint), q(command = 'replay'))), qr/^interrupted 250 1000 CALL outbox\.replay\(number => \d+, dry_run => false\) goes on, SELECT outbox\.cancel_replay\(\d+\) ends it\.$/,
	'one that the end of the server interrupted: how far it came, and what to type');
sql(q(UPDATE outbox.replay SET state = 'cancelled' WHERE state <> 'cancelled'));

# --- another number of lanes, while a topic is away ---
$redis->command('SET', 'bad', 'no stream');
sql(q(SELECT outbox.emit('order', 'k1', 'bad', '{}')));
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.lag WHERE side IS NOT NULL), '1', 60), 'a topic is away');
sql(q(SELECT outbox.alter_route('redis', lanes => 3)));
is(sql(progress(q(route || ' ' || phase || ' ' || total || ' ' || (hint ~ 'no topic has left its lane')), q(command = 'lane change'))), 'redis waits 1 true', 'a change that cannot begin, and why');
$redis->command('DEL', 'bad');
ok(wait_for_value($node, progress('command', q(command = 'lane change')), '', 90), 'done, it is not seen any more');
is(sql(q(SELECT lanes FROM outbox.route WHERE name = 'redis')), '3', 'and so it was');

# --- a backlog: nobody is sending, then somebody is ---
$redis->stop;
sql(q(SELECT count(outbox.emit('order', 'k' || i % 1000, 'one', '{}')) FROM generate_series(1, 20000) i));
ok(wait_for_value($node, progress(q(route || ' ' || phase || ' ' || (hint ~ 'outbox.lag')), q(command = 'drain' AND total BETWEEN 3000 AND 25000)), 'redis waits true', 60), 'a backlog that waits')
	or diag(sql('SELECT * FROM outbox.pg_stat_progress_outbox'));
$redis->restart;
ok(wait_for_value($node, progress('command', 'true'), '', 120), 'it is drained');
no_server_crashed($node);
done_testing();
