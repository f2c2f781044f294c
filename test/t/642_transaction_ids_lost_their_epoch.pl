# Transaction ids go back by an epoch (pg_resetwal -e with a number too low): no lane takes what is emitted then for sent; everybody is told what to do, and that does it.
# matrix: B20
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\nautovacuum = off\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', @_) }
sub start_at { my ($epoch) = @_; $node->stop('fast'); command_ok([ 'pg_resetwal', '-f', '-e', $epoch, '-D', $node->data_dir ], "epoch $epoch"); $node->start; return }
my $lag = q(SELECT concat_ws(' ', state, error_class, error_code, error_message) FROM outbox.lag);
my $told = 'unowned internal 55000 transaction ids have gone back: the server hands out some that it used before';

start_at(1);
redis_route($node, $redis, 'r', topic => q('s'));
sql(q(SELECT outbox.emit('t', 'k', 'before', '1')));
ok(wait_idle($node), 'delivered');
# A server in order goes through this as well.
$node->restart;
sql(q(SELECT outbox.emit('t', 'k', 'before', '2')));
ok(wait_idle($node), 'delivered after a restart, too');
cmp_ok(sql('SELECT pg_snapshot_xmax(pg_current_snapshot())'), '>', 2**32, 'in the second epoch');

start_at(0);
my $since = sql('SELECT now()');
sql(q(SELECT outbox.emit('t', 'k', 'meanwhile', '1'))) for 1 .. 3;
ok(wait_for_value($node, $lag, $told, 60), 'outbox.lag says why nobody has the lane');
like(sql(q(SELECT detail || hint FROM outbox.doctor() WHERE "check" = 'lane' AND status = 'problem')),
	qr/55000: transaction ids have gone back.*pg_resetwal -x .* -e .*CALL outbox\.seek\(/, 'doctor(), too, and what to do');
is($redis->xlen('s'), 2, 'and nothing was sent, nor passed over');
# All others' shared memory is new after that, and rows have no trace of it: the positions do.
$node->restart;
ok(wait_for_value($node, $lag, $told, 60), 'another start of the server does not hide it');

# What the hint says.
start_at(1);
sql(q(SELECT outbox.emit('t', 'k', 'in order again', '1')));
sql("CALL outbox.seek('r', '$since', dry_run => false)");
ok(wait_idle($node), 'seek() sends it');
my %events = map { $_ => 1 } @{ $redis->column('s', 'id') };
is(scalar keys %events, sql('SELECT count(*) FROM outbox_internal.log'), 'all of it');
is(sql(q(SELECT count(*) FROM outbox.lag WHERE error_code IS NOT NULL)), '0', 'and nobody complains any more');
like(slurp_file($node->logfile), qr/transaction ids have gone back.*HINT:  Stop the server, have pg_resetwal -x /s, "the server's log has it");
no_server_crashed($node);
done_testing();
