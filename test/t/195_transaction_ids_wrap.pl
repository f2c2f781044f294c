# Transaction ids pass 2^32 twice over: events, backlogs, prepared and idle transactions, aborted ones, frozen day tables and
# more than sixty-four subtransactions on both sides of it. Nothing is lost, made up, repeated or out of order.
# matrix: B17
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\nautovacuum = off\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'flows', topic => q('flows'), lanes => 2);
redis_route($node, $redis, 'lags', topic => q('lags'));

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub next_xid { return sql('SELECT pg_snapshot_xmax(pg_current_snapshot())') }

# All that pg_resetwal needs to begin again at that transaction id, at most 2^31 further on.
sub jump
{
	my ($to) = @_;
	$node->safe_psql('postgres', 'VACUUM FREEZE; CHECKPOINT');
	$node->safe_psql('template1', 'VACUUM FREEZE');
	$node->safe_psql('template1', 'ALTER DATABASE template0 ALLOW_CONNECTIONS true');
	$node->safe_psql('template0', 'VACUUM FREEZE');
	$node->safe_psql('template1', 'ALTER DATABASE template0 ALLOW_CONNECTIONS false');
	$node->stop;
	my $low = $to % 2**32;
	my $segment = sprintf '%s/pg_xact/%04X', $node->data_dir, int($low / 2**20);
	if (!-e $segment)
	{
		open my $file, '>', $segment or die "$segment: $!";
		print $file "\0" x (256 * 1024);
		close $file;
	}
	command_ok([ 'pg_resetwal', '-f', '-x', $low, '-e', int($to / 2**32), '-D', $node->data_dir ], "transaction ids go on at $to");
	$node->start;
	return;
}

my $n = 0;
sub emit { my ($key, $text) = @_; return "SELECT outbox.emit_text('t', '$key', 'x', '$key $text');" }
# Transactions of every kind, each with an id; those that roll back leave an id, too.
sub some
{
	my ($transactions) = @_;
	my $from = $n + 1;
	$n += $transactions;
	sql(join '', map { emit('k', $_) . ($_ % 3 ? '' : 'BEGIN;' . emit('phantom', $_) . 'ROLLBACK;') } $from .. $n);
	return;
}
sub expected { return { k => join(' ', 1 .. $n), @_ } }
sub arrived { my ($stream) = @_; return by_key($redis->column($stream, 'payload')) }

some(20);
ok(wait_idle($node), 'near the beginning');
sql(q{SELECT outbox.pause('lags', reason => 'to have a backlog')});
some(20);
jump(1_900_000_000);
some(20);
jump(3_700_000_000);
some(20);
# Below the end by as many as what follows takes on both sides of it.
jump(2**32 - 100);
cmp_ok(next_xid(), '<', 2**32, 'below 2^32: ' . next_xid());
sql('BEGIN;' . emit('prepared', 1) . q{DO $$ BEGIN FOR i IN 2 .. 70 LOOP
	BEGIN PERFORM outbox.emit_text('t', 'prepared', 'x', 'prepared ' || i); EXCEPTION WHEN division_by_zero THEN NULL; END;
	END LOOP; END $$; PREPARE TRANSACTION 'across'});
sql('BEGIN;' . emit('phantom', 0) . q{PREPARE TRANSACTION 'phantom'});
my $idle = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$idle->query_safe('BEGIN; ' . emit('idle', 1));
some(100);
cmp_ok(next_xid(), '>', 2**32, 'above it: ' . next_xid());
$idle->query_safe(emit('idle', 2));
ok(wait_until(sub { ($redis->xlen('flows')) == $n }, 30), 'all that has committed arrives');
is_deeply(arrived('flows'), expected(), 'and nothing else');
$node->safe_psql('postgres', q{COMMIT PREPARED 'across'; ROLLBACK PREPARED 'phantom'});
$idle->query_safe('COMMIT');
$idle->quit;
my %late = (prepared => join(' ', 1 .. 70), idle => '1 2');
ok(wait_until(sub { $redis->xlen('flows') == $n + 72 }, 30), 'then what ended on the other side');
is_deeply(arrived('flows'), expected(%late), 'in order');
$node->restart;
some(20);
sql('VACUUM FREEZE');
is(sql(q{SELECT outbox.resume('lags')}), 't', 'a lane that has the whole of it before it goes on');
ok(wait_idle($node), 'idle');
is_deeply(arrived('lags'), expected(%late), 'nothing is missing, made up, repeated or out of order in it');
is_deeply(arrived('flows'), expected(%late), 'nor in the others');
sql(q{SELECT outbox.create_route('all', server => 'flows', topic => 'all', start => 'earliest')});
ok(wait_idle($node), 'a route that begins at the earliest');
is_deeply(arrived('all'), expected(%late), 'reads all of it');
sql(q{SELECT outbox.alter_route('lags', lanes => 3)});
ok(wait_for_value($node, q{SELECT lanes FROM outbox.route WHERE name = 'lags'}, 3), 'another number of lanes');
some(20);
ok(wait_idle($node), 'idle');
is_deeply(arrived('lags'), expected(%late), 'repeats nothing');
no_server_crashed($node);
done_testing();
