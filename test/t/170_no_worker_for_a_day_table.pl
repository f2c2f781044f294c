# emit() depends on no free worker slot: the table of the day is missing, no background worker can ever be started, and
# all sessions emit all the same, beside a prepared transaction and an idle one; none waits for another, all of it is
# seen, and delivered in order once there are workers.
# matrix: C15 B12 R22
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

# The launcher has the only slot there is.
my $none = "max_worker_processes = 1\nmax_logical_replication_workers = 0\n";
my $node = new_node(conf => $none . "outbox.retention = '2d'\n");
my $redis = Outbox::Redis->start;

sub sql { return $node->safe_psql('postgres', $_[0]) }

# The slowest of all statements that a caller waited for.
my $slowest = 0;

sub timed
{
	my ($what, $work) = @_;
	my $began = time;
	my $result = $work->();
	my $took = time - $began;
	$slowest = $took if $took > $slowest;
	cmp_ok($took, '<', 2, "$what does not wait");
	return $result;
}

my $tables = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox_internal.log'::regclass";
is(sql($tables), 0, 'a new database has no day table');
timed('the first event of all', sub { sql(q{SELECT outbox.emit('t', 'k', 'first', '1')}) });
timed('a prepared transaction', sub { sql(q{BEGIN; SELECT outbox.emit('t', 'prepared', 'p', '2'); PREPARE TRANSACTION 'stays'}) });
my $idle = $node->background_psql('postgres', on_error_stop => 1);
timed('one that stays open', sub { $idle->query_safe('BEGIN'); $idle->query_safe(q{SELECT outbox.emit('t', 'idle', 'i', '3')}) });

# Eight at once, each in every isolation level, by every way in; no error, no warning.
my $script = $node->basedir . '/emit.sql';
PostgreSQL::Test::Utils::append_to_file($script, join '', map { qq{
\\set k random(1, 3)
BEGIN ISOLATION LEVEL $_;
SELECT outbox.emit('t', 'k' || :client_id, '$_', '{}');
SELECT outbox.emit_many('t', ARRAY['k' || :client_id]::text[], '$_', '{1}');
INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) VALUES ('t', 'k' || :client_id, 'view', '{}');
SELECT count(*) FROM outbox.event;
COMMIT;
} } 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
my $log = $node->basedir . '/latency';
timed('none of eight sessions', sub { $node->command_ok([ 'pgbench', '-n', '-c', 8, '-j', 2, '-t', 3, '-f', $script, 'postgres' ],
	'eight emitters in all isolation levels') });
my $visible = 1 + 8 * 3 * 3 * 3;
is(sql('SELECT count(*) FROM outbox_internal.log_spare'), $visible, 'all of it is in the spare table');
is(sql("SELECT count(*) FROM pg_locks WHERE relation = 'outbox_internal.log'::regclass AND mode <> 'AccessShareLock'"), 0,
	'and no session holds a lock on the log');
my ($status, $stdout, $stderr) = $node->psql('postgres', q{BEGIN; SELECT outbox.emit('t', 'k', 'own', '4'); SELECT event_type FROM outbox.event; ROLLBACK});
is($stderr, '', 'the caller is told nothing');
like($stdout, qr/own$/, 'and sees its own event in the view');
my @told = grep { /events go to outbox_internal.log_spare/ } split /\n/, PostgreSQL::Test::Utils::slurp_file($node->logfile);
is(scalar @told, 1, 'the server log says so once');

# A month later, with tables that are long over: the same.
$idle->query_safe('COMMIT');
$idle->quit;
my $day = 86_400 * 1_000_000;
Outbox::Faults::shift_clock(33 * $day);
$node->restart;
timed('a month later, the first event', sub { sql(q{SELECT outbox.emit('t', 'k', 'later', '5')}) });
my $id = timed('and the second', sub { sql(q{SELECT outbox.emit('t', 'k', 'last', '6')}) });
is(sql("SELECT count(*) FROM outbox_internal.log_spare"), $visible + 3, 'are there, and the idle one');

like(sql("SELECT string_agg(detail, ' ') FROM outbox.doctor()"), qr/Events went to outbox_internal.log_spare/, 'doctor() tells of it');

# A route reads from the first event on; there is no worker to send yet.
sql("CREATE SERVER r FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
	SELECT outbox.create_route('r', server => 'r', start => 'earliest')");
is(sql('SELECT pending FROM outbox.lag'), $visible + 3, 'lag counts them');
is(sql("SELECT state FROM outbox.status('$id')"), 'pending', 'status() finds them');
is(sql("SELECT count(*) FROM outbox.peek('r', 1000)"), $visible + 3, 'peek() shows them');

# With workers all is delivered, in order, and new events go to day tables again.
$node->append_conf('postgresql.conf', "max_worker_processes = 8\n");
$node->restart;
ok(wait_idle($node), 'delivered once there are workers');
my $events = sql('SELECT id FROM outbox_internal.log_spare ORDER BY created_at');
is(join("\n", @{ $redis->column('outbox.event.t', 'id') }), $events, 'all of it, in the order of the clock');
is(sql("SELECT state FROM outbox.status('$id')"), 'delivered', 'status() knows');
sql("COMMIT PREPARED 'stays'");
ok(wait_idle($node), 'what was prepared');
is($redis->xlen('outbox.event.t'), $visible + 4, 'comes at last');
ok(wait_for_value($node, "$tables AND inhrelid::regclass::text > 'outbox_internal.log_'", 4, 30), 'the keeper has made day tables');
sql(q{SELECT outbox.emit('t', 'k', 'new', '7')});
is(sql('SELECT count(*) FROM outbox_internal.log'), 1, 'which take what comes now');

# Replay reads it too.
sql(q{CALL outbox.replay(route => 'r', since => '-infinity', event_type => 'first', dry_run => false)});
ok(wait_until(sub { $redis->xlen('outbox.event.t') == $visible + 6 }, 30), 'replay() walks it and sends from it');

# It is emptied as a whole, when all is delivered and expired; not before.
my $size = q{SELECT pg_relation_size('outbox_internal.log_spare') > 0};
sql(q{ALTER SYSTEM SET outbox.retention = 0});
upkeep($node);
is(sql($size), 't', 'kept for its retention, and a day more, as a day table is');
Outbox::Faults::shift_clock(35 * $day);
$redis->stop;
sql(q{SELECT outbox.emit('t', 'k', 'not delivered', '8')});
my $spare = sql(q{SELECT pg_relation_filenode('outbox_internal.log_spare')});
sql(q{BEGIN; LOCK TABLE outbox_internal.log_spare IN ROW EXCLUSIVE MODE; PREPARE TRANSACTION 'writer'});
upkeep($node);
is(sql($size), 't', 'kept while a transaction that may have written to it is not finished');
sql(q{COMMIT PREPARED 'writer'});
ok(wait_until(sub { sql('SELECT pg_reload_conf()'); sql($size) eq 'f' }, 30), 'emptied when no lane needs it');
is(sql('SELECT count(*) FROM outbox_internal.log_spare'), 0, 'as a whole');
$redis->restart;
ok(wait_idle($node), 'what was in flight arrives');
no_server_crashed($node);
diag(sprintf('slowest: %.0f ms', $slowest * 1000));
done_testing();
