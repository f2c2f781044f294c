# What wait_for() and wait_until_idle() say: of an event that forget() has given up, a worker that was stopped, a destination that is
# down and paused, a server that publishes nothing, or has no room for a worker.
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('s'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
# What a call answers, and all that it says beside.
sub said
{
	my ($query) = @_;
	my ($out, $err) = ('', '');
	$node->psql('postgres', $query, stdout => \$out, stderr => \$err, timeout => 60);
	return "$out|$err";
}
sql(q(SELECT outbox.emit('a', 1, 'e', '{}')));
ok(wait_idle($node), 'idle');

# Given up by forget() while its lane stands.
sql(q(SELECT outbox.pause('r', reason => 'p')));
my $id = sql(q(SELECT outbox.emit('a', 2, 'e', '{}')));
sql(q(CALL outbox.forget('a', '2', undelivered => true, dry_run => false, reason => 'asked')));
is(sql("SELECT state FROM outbox.status('$id')"), 'skipped', 'given up');
my $began = time;
is(sql("SELECT outbox.wait_for('$id', '20 s')"), 't', 'nobody waits for it');
cmp_ok(time - $began, '<', 5, 'for long');

# A table that somebody has locked is waited for no longer than was asked.
my $locker = $node->background_psql('postgres', on_error_stop => 1);
$locker->query_safe('BEGIN; LOCK TABLE outbox.pause');
like(said(q(SET statement_timeout = '40 s'; SELECT outbox.wait_until_idle('1 s'))), qr/^f\|.*NOTICE: .*table "pause" locked.*outbox\.doctor\(\)/s, 'a locked table');
like(said("SET statement_timeout = '40 s'; SELECT outbox.wait_for('$id', '1 s')"), qr/^f\|.*NOTICE: .*table "pause" locked/s, 'and of one event');
$locker->query_safe('ROLLBACK');
$locker->quit;
is(sql(q(SELECT outbox.wait_until_idle('20 s'))), 't', 'when it is free again they go on');

# Down, and paused.
sql(q(SELECT outbox.emit('a', 3, 'e', '{}')));
$redis->stop;
like(said(q(SELECT outbox.wait_until_idle('3 s'))), qr/^f\|.*NOTICE: .*For lane 0 of route "r", which is paused.*outbox\.doctor\(\)/s, 'a pause is named');
$redis->run('start', $redis->{dir}, $redis->{port});
sql(q(SELECT outbox.resume('r')));
ok(wait_idle($node), 'delivered');

# Stopped.
my $worker = sql(q(SELECT pid FROM outbox.worker WHERE kind = 'relay'));
kill 'STOP', $worker;
sql(q(SELECT outbox.emit('a', 4, 'e', '{}')));
like(said(q(SELECT outbox.wait_until_idle('1 s'))), qr/^f\|.*For lane 0 of route "r", whose relay worker, process $worker, has not answered\./s, 'a worker that does not answer is not idle');
kill 'CONT', $worker;
ok(wait_idle($node), 'it goes on');

# Off.
$node->append_conf('postgresql.conf', 'outbox.enabled = off');
$node->reload;
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.worker WHERE kind = 'relay'), '0', 30), 'off');
sql(q(SELECT outbox.emit('a', 5, 'e', '{}')));
like(said(q(SELECT outbox.wait_until_idle('1 s'))), qr/^f\|.*which no relay worker has: outbox\.enabled is off/s, 'and said so');
$node->append_conf('postgresql.conf', 'outbox.enabled = on');

# No room beside the launchers.
foreach my $processes (1, 2)
{
	$node->append_conf('postgresql.conf', "max_worker_processes = $processes");
	$node->restart;
	my $told = qr/max_worker_processes = $processes has no room for keepers and relay workers.*max_worker_processes = [4-9] and restart/s;
	like(sql(q(SELECT string_agg(concat_ws(' ', process, state, detail), E'\n') FROM outbox.process WHERE process = 'all')), $told, "max_worker_processes = $processes: outbox.process says what is too low");
	like(sql(q(SELECT concat_ws(' ', status, detail, hint) FROM outbox.doctor() WHERE "check" = 'workers')), qr/^problem $told/, 'so does doctor()');
}
$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
$node->restart;
ok(wait_idle($node), 'with room all is published');
is($redis->xlen('s'), 4, 'each once');

no_server_crashed($node);
$node->stop;
done_testing();
