# Transaction ids go back (pg_resetwal -x with a number too low): no lane takes what is emitted then for sent, also when ids have passed its position; everybody is told what to do, and that does it.
# matrix: B20
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\nautovacuum = off\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', @_) }
redis_route($node, $redis, 'r', topic => q('s'));
sub next_id { return sql('SELECT pg_snapshot_xmax(pg_current_snapshot())') }
sub pass { my ($transactions) = @_; return sql(join '', map { 'SELECT pg_current_xact_id();' } 1 .. $transactions) }
sub start_at { my ($id) = @_; command_ok([ 'pg_resetwal', '-f', '-x', $id, '-D', $node->data_dir ], "ids go on at $id"); $node->start; return }
my $lag = q(SELECT concat_ws(' ', state, error_class, error_code, error_message) FROM outbox.lag);
my $told = 'unowned internal 55000 transaction ids have gone back: the server hands out some that it used before';

sql(q(SELECT outbox.emit('t', 'k', 'first', '1')));
ok(wait_idle($node), 'delivered');
# A server in order goes through this as well.
$node->restart;
sql(q(SELECT outbox.emit('t', 'k', 'second', '1')));
ok(wait_idle($node), 'delivered after a restart, too');

my $sent = 2;
foreach my $how ('fast', 'immediate')
{
	pass(120);
	sql(q(SELECT outbox.emit('t', 'k', 'before', '1')));
	ok(wait_idle($node), "$how: delivered");
	ok(wait_for_value($node, q(SELECT count(*) > 0 FROM outbox_internal.progress WHERE xmin::text::bigint > pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 100), 't', 60), 'and noted');
	$sent++;
	my $used = next_id();
	sql('CHECKPOINT');    # what is in the WAL alone goes with that, the position too
	$node->stop($how);
	start_at($used - 100);
	my $since = sql('SELECT now()');
	sql(q(SELECT outbox.emit('t', 'k', 'while they are used', '1'))) for 1 .. 3;
	ok(wait_for_value($node, $lag, $told, 60), 'outbox.lag says why nobody has the lane');
	like(sql(q(SELECT detail || hint FROM outbox.doctor() WHERE "check" = 'lane' AND status = 'problem')),
		qr/55000: transaction ids have gone back.*pg_resetwal -x .*CALL outbox\.seek\(/, 'doctor(), too, and what to do');
	pass(150);
	cmp_ok(next_id(), '>', $used, 'ids have passed the position');
	my ($pid) = relay_pids($node);
	sql("SELECT pg_terminate_backend($pid)");
	ok(wait_until(sub { my ($now) = relay_pids($node); return $now && $now != $pid }), 'another worker');
	ok(wait_for_value($node, $lag, $told, 60), 'says so still');
	is($redis->xlen('s'), $sent, 'and nothing was sent, nor passed over');

	# What the hint says.
	$node->stop('fast');
	start_at($used + 10_000);
	sql(q(SELECT outbox.emit('t', 'k', 'in order again', '1')));
	sql("CALL outbox.seek('r', '$since', dry_run => false)");
	ok(wait_idle($node), 'seek() sends it');
	my %events = map { $_ => 1 } @{ $redis->column('s', 'id') };
	is(scalar keys %events, sql('SELECT count(*) FROM outbox_internal.log'), 'all of it');
	$sent = $redis->xlen('s');
	is(sql(q(SELECT count(*) FROM outbox.lag WHERE error_code IS NOT NULL)), '0', 'and nobody complains any more');
}
like(slurp_file($node->logfile), qr/transaction ids have gone back.*HINT:  Stop the server, have pg_resetwal -x /s, "the server's log has it");
no_server_crashed($node);
done_testing();
