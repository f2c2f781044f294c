# Windows that do not fit in memory are sorted on disk and read piece by piece, while the log is rewritten under the
# reader, while workers are stopped and started: every event arrives, once, in order.
# matrix: B15 C8
# ring: long
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(conf => "outbox.sort_mem = '256kB'\noutbox.max_inflight = '1MB'\n");
my $each = 30_000;

sub sql { return $node->safe_psql('postgres', $_[0]) }

# One transaction of its own, one that rolls back, many small ones, not so many at once that a tick is recorded, all before the
# route: one window.
sql("SELECT count(outbox.emit('t', i % 7, 'one', to_jsonb(i))) FROM generate_series(1, $each) i");
sql("BEGIN; SELECT count(outbox.emit('t', i % 7, 'none', to_jsonb(i))) FROM generate_series(1, $each) i; ROLLBACK");
sql("DO \$\$ BEGIN FOR i IN 1 .. $each / 10 LOOP
	PERFORM outbox.emit('t', j % 7, 'many', to_jsonb(j)) FROM generate_series(1, 10) j; COMMIT; PERFORM pg_sleep(0.2) WHERE i % 400 = 0; END LOOP; END \$\$");
sql("SELECT outbox.emit('t', 1, 'large', to_jsonb(repeat(md5(i::text), 10000))) FROM generate_series(1, 20) i");
my $events = 2 * $each + 20;
is(sql('SELECT count(*) FROM outbox_internal.log'), $events, 'a backlog');
cmp_ok(sql('SELECT count(*) FROM outbox_internal.tick'), '<=', 1, 'which is one window: the one tick is that of the installation');

# Two orders to rewrite the table in, so that each time every row goes somewhere else.
my $table = sql("SELECT tableoid::regclass FROM outbox_internal.log LIMIT 1");
sql("SET outbox.allow_loss = on; CREATE INDEX one_order ON $table (md5(id::text)); CREATE INDEX another_order ON $table (md5('x' || id))");

redis_route($node, $redis, 'r', start => "'earliest'");
my $length = sub { return $redis->command('XLEN', 'outbox.event.t') };
my $rewrites = 0;
my $stops = 0;
my $deadline = time + 120;
while ((my $before = $length->()) < $events && time < $deadline)
{
	next if $before == 0;
	sql("CLUSTER $table USING " . ($rewrites++ % 2 ? 'one_order' : 'another_order'));
	if ($stops < 2 && $before > $events / 4 * $stops)
	{
		sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'outbox relay'");
		$stops++;
	}
}
ok(wait_idle($node), 'delivered to the end');
cmp_ok($rewrites, '>', 0, "the log was rewritten $rewrites times meanwhile");
like(slurp_file($node->logfile), qr/the log was rewritten while lane 0 of route 1 read it/, 'which the reader noticed');
is($stops, 2, 'and the workers stopped twice');
is($length->(), $events, 'each event once');

my $log = [ split /\n/, sql('SELECT id FROM outbox_internal.log ORDER BY created_at') ];
is_deeply($redis->column('outbox.event.t', 'id'), $log, 'in the order of the log');
is(join(',', glob $node->data_dir . '/base/pgsql_tmp/*'), '', 'no temporary file is left');

# A lane that lags leaves ticks behind, and reads its backlog in windows that end at them.
$redis->stop;
my $ticks = 'SELECT count(*) FROM outbox_internal.tick';
my $more = 0;
$deadline = time + 60;
while (sql($ticks) < 5 && time < $deadline)
{
	sql("DO \$\$ BEGIN FOR i IN 1 .. 1000 LOOP PERFORM outbox.emit('u', i % 7, 'more', to_jsonb(i)); COMMIT; END LOOP; END \$\$");
	$more += 1000;
}
cmp_ok(sql($ticks), '>=', 5, 'ticks are recorded while a lane lags');
$redis->restart;
ok(wait_idle($node, 120), 'the backlog drains when the destination is back');
my $u = [ split /\n/, sql("SELECT id FROM outbox_internal.log WHERE aggregate_type = 'u' ORDER BY created_at") ];
is(scalar(@$u), $more, 'a second backlog');
my (%seen, @first);
foreach my $id (@{ $redis->column('outbox.event.u', 'id') })
{
	push @first, $id unless $seen{$id}++;
}
is_deeply(\@first, $u, 'all of it, in the order of the log');

no_server_crashed($node);
done_testing();
