# Undelivered events are not dropped unasked: at the moment of an emit, behind a backlog too long to count, by DROP
# OWNED, before and after delivery; and upkeep is not hindered. The messages are in sql/079_loss.sql.
# matrix: C19 B12 R17
use strict;
use warnings;

use IPC::Run;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('all'));

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub try_sql { my ($status, undef, $error) = $node->psql('postgres', $_[0], on_error_stop => 1); return $status == 0 ? 'done' : ($error =~ /ERROR: +([^\n]*)/)[0] }
my $refused = 'cannot drop extension outbox because it holds undelivered events';
my $drop = 'BEGIN; DROP EXTENSION outbox CASCADE; ROLLBACK';

# Delivered: nothing is in the way.
sql(q{SELECT outbox.emit('a', n, 'e', '{}') FROM generate_series(1, 100) n});
ok(wait_idle($node), 'delivered');
is(try_sql($drop), 'done', 'with all delivered the extension goes');
is(try_sql('BEGIN; TRUNCATE outbox_internal.log; ROLLBACK'), 'done', 'and so does the log');
is(try_sql('BEGIN; DELETE FROM outbox_internal.log; ROLLBACK'), 'cannot delete from outbox_internal.log', 'its rows by hand do not');

# An event that is emitted at the same moment: its transaction is awaited, and then it counts.
my $emitter = $node->background_psql('postgres');
sql(q{SELECT outbox.pause('redis', reason => 'test')});
my %statements = (
	$drop => $refused,
	'TRUNCATE outbox_internal.log' => 'cannot truncate outbox_internal.log because it holds undelivered events',
	q{DO $$ BEGIN EXECUTE format('ALTER TABLE outbox_internal.log DETACH PARTITION outbox_internal.log_%s', to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')); END $$} => undef);
foreach my $statement (sort keys %statements)
{
	$emitter->query_safe(q{BEGIN});
	$emitter->query_safe(q{SELECT outbox.emit('a', 1, 'at the same moment', '{}')});
	my ($out, $error) = ('', '');
	my $running = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-c', $statement ], '>', \$out, '2>', \$error);
	ok(wait_for_value($node, q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'}, 't'), 'waits for the emitter');
	$emitter->query_safe('COMMIT');
	$running->finish;
	like($error, qr/because it holds undelivered events/, 'and is refused: ' . $statement =~ s/ .*//r);
	sql(q{CALL outbox.seek('redis', 'infinity', dry_run => false)});
}
$emitter->quit;

# A route whose events cannot be told from 400,000 others in a moment: refused all the same, in seconds.
sql(q{SELECT outbox.resume('redis')});
sql(q{SELECT outbox.create_route('rare', server => (SELECT server FROM outbox.route WHERE name = 'redis'), aggregate_types => '{rare}')});
sql(q{SELECT outbox.pause('rare', reason => 'test')});
ok(wait_until(sub { try_sql($drop) eq 'done' }, 20), 'a paused route without events blocks nothing');
sql(q{SELECT outbox.emit_many('common', NULL, 'e', array_agg('1'::jsonb)) FROM generate_series(1, 20000) n}) foreach 1 .. 16;
my $start = time;
my (undef, undef, $error) = $node->psql('postgres', $drop);
cmp_ok(time - $start, '<', 30, 'an answer in bounded time: ' . (time - $start));
like($error, qr/route "rare": none pending among the first 300000 events behind its lanes/i, 'which says what it is');
sql(q{SELECT outbox.emit('rare', 1, 'e', '{}')});
like(($node->psql('postgres', $drop))[2], qr/ERROR:  $refused/, 'refused');
sql(q{SELECT outbox.drop_route('rare')});
ok(wait_until(sub { try_sql($drop) eq 'done' }, 60), 'all delivered: it goes again');

# Without preloading the triggers are there, too.
sql(q{SELECT outbox.pause('redis', reason => 'test'), outbox.emit('a', 1, 'e', '{}')});
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
is(try_sql('DELETE FROM outbox_internal.log'), 'cannot delete from outbox_internal.log', 'DELETE is refused in a session that has not loaded the library');
is(try_sql('TRUNCATE outbox_internal.log'), 'cannot truncate outbox_internal.log because it holds undelivered events', 'and TRUNCATE');
is(try_sql("LOAD 'outbox'; $drop"), $refused, 'DROP where the library is loaded');
is(try_sql("LOAD 'outbox'; SET outbox.allow_loss = on; $drop"), 'done', 'unless allow_loss says that it does not matter');

$node->stop;
done_testing();
