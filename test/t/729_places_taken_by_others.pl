# Others hold so many background workers that there is no place for those of outbox, though max_worker_processes is large enough
# for them: outbox.process, doctor() and the server log say so, who holds the places and what helps, which does help. With some
# places there are turns. When places come free, all of that is over at once; what lasts for a moment is not in the log.
# matrix: C15
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => "max_worker_processes = 8\nmax_parallel_workers_per_gather = 8\n"
	  . "parallel_setup_cost = 0\nparallel_tuple_cost = 0\nmin_parallel_table_scan_size = 0\n");
my $redis = Outbox::Redis->start;
my $big = 'SELECT count(*) FROM big WHERE pg_sleep(0.05 + i * 0) IS NOT NULL';
sub sql { my ($query, $database) = @_; return $node->safe_psql($database // 'postgres', $query) }
sub log_since { my ($from) = @_; return PostgreSQL::Test::Utils::slurp_file($node->logfile, $from) }
sub count_of { my ($type) = @_; return "SELECT count(*) FROM pg_stat_activity WHERE backend_type = '$type'" }
my $rows = q{SELECT string_agg(concat_ws(' ', process, running, state), ', ') FROM outbox.process WHERE database = current_database()};
my $doctor = q{SELECT coalesce(string_agg(concat_ws(' ', "check", status, detail, hint), E'\n'), '') FROM outbox.doctor()
	WHERE concat(detail, hint) ~ 'max_worker_processes|max_parallel_workers'};

sql('CREATE TABLE big AS SELECT i FROM generate_series(1, 100000) i; ALTER TABLE big SET (parallel_workers = 8); ANALYZE big');
my @holders;

# A query takes all places that there are: as many as expected.
sub hold
{
	my ($places) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query_until(qr/go/, "\\echo go\n$big;\n");
	push @holders, $session;
	return wait_for_value($node, count_of('parallel worker'), $places, 10);
}
sub let_go
{
	sql("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE query LIKE '$big%' AND backend_type = 'client backend'");
	$_->quit foreach splice @holders;
	return;
}
sub use_extension
{
	my ($database) = @_;
	sql(qq{CREATE EXTENSION outbox; CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
		SELECT outbox.create_route('all', server => 'redis', topic => '$database')}, $database);
	return;
}
sub emit { my ($database) = @_; sql(q{SELECT outbox.emit('order', 1, 'order.created', '{}')}, $database // 'postgres'); return }

# No process of outbox has a place, for a moment.
sub runs_alone { return wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ 'outbox'", '1', 10) }
my $well = 'keeper 1 running, relay 1 running';
my $place = 'keeper 0 no place, relay 0 no place';
ok(runs_alone(), 'only the launcher runs');
ok(hold(6), 'a parallel query takes all that is left');
my $from = -s $node->logfile;
use_extension('postgres');
emit();
ok(wait_for_value($node, $rows, $place, 10), 'outbox.process says that there is no place') or diag sql($rows);
let_go();
ok(wait_until(sub { $redis->xlen('postgres') == 1 }, 10), 'when the query is over the event goes');
ok(wait_for_value($node, $rows, $well, 10), 'both run');
is(sql($doctor), '', 'and nobody says anything any more');
unlike(log_since($from), qr/could not start a background worker/, 'the log has no line of that moment');

# It lasts: what is said, and that the log says it once, and when it is over. What it says helps.
my $none = 'Other background processes hold so much of max_worker_processes = 8 that there is room for none of 2 processes that are wanted\.'
  . ' They are: [^|]*parallel worker \(6\)[^|]*\. ';
my $help = 'Set max_parallel_workers = 4 and reload the configuration, or max_worker_processes = 12 and restart the server\.';
sql('DROP EXTENSION outbox CASCADE');
ok(runs_alone(), 'without the extension only the launcher runs');
ok(hold(6), 'all places are taken');
$from = -s $node->logfile;
use_extension('postgres');
ok(wait_for_value($node, $rows, $place, 10), 'there is no place');
like(sql(q{SELECT string_agg(DISTINCT detail, '|') FROM outbox.process WHERE state = 'no place'}), qr/^$none$help$/, 'outbox.process says who holds them and what helps');
is(sql(q{SELECT state FROM outbox.process WHERE process = 'all'}), 'no place', 'for all');
my $said = sql($doctor);
like($said, qr/^$_ problem $none.*$help$/m, "doctor() says it of the $_") foreach qw(keeper workers);
unlike($said, qr/in turn/, 'and not that they run in turn');
ok(wait_until(sub { log_since($from) =~ /HINT:  $help/ }, 20), 'the log has it as well');
like(log_since($from), qr/could not start a background worker of outbox for database "postgres"\n.* has are taken, 1 by outbox, others by: .*parallel worker \(6\)/,
	'with who holds them');
sql($_) foreach 'ALTER SYSTEM SET max_parallel_workers = 4', 'SELECT pg_reload_conf()';
let_go();
ok($node->wait_for_log(qr/outbox has a place for each of its background workers again, after [0-9.]+ s/, $from), 'and that it is over');
is(() = log_since($from) =~ /could not start a background worker/g, 1, 'once');
ok(hold(4), 'with what the hint says the query takes less');
ok(wait_for_value($node, $rows, $well, 10), 'and all run beside it');
let_go();
sql($_) foreach 'ALTER SYSTEM RESET max_parallel_workers', 'SELECT pg_reload_conf()';

# A place for one of the two; and for two of the four of two databases: turns, though all would fit.
sub switch_to { my ($value) = @_; sql("ALTER SYSTEM SET outbox.enabled = $value"); sql('SELECT pg_reload_conf()'); return }
switch_to('off');
ok(wait_for_value($node, count_of('outbox relay'), 0, 10), 'the relay worker has gone');
ok(hold(5), 'its place is taken as well');
switch_to('on');
emit();
ok(wait_until(sub { $redis->xlen('postgres') == 2 }, 15), 'the keeper gives its place to the relay worker');
like(sql(q{SELECT concat_ws(' ', state, detail) FROM outbox.process WHERE process = 'all'}), qr/^in turn Other background processes .* room for 1 of 2 processes/,
	'they run in turn, since others hold the places');
let_go();
ok(wait_for_value($node, $rows, $well, 10), 'both run again');
sql('CREATE DATABASE d2');
ok(hold(4), 'two places of four are taken');
use_extension('d2');
foreach my $database (qw(d2 postgres))
{
	my $at = $redis->xlen($database);
	emit($database);
	ok(wait_until(sub { $redis->xlen($database) == $at + 1 }, 15), "$database has its turn");
}
let_go();
no_server_crashed($node);
done_testing();
