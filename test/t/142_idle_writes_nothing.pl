# Idle lanes, sixty-four of them and two routes, and the keeper beside them write nothing at all: neither to the log that
# they read nor to WAL. Nor where transactions finish that emit nothing. What needs their positions does not wait for them:
# day tables are dropped, the number of lanes changes, a restart repeats nothing.
# matrix: B12 R7
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

# bgwriter notes running transactions, the checkpointer its checkpoints: seldom, and not for us.
my $node = new_node(conf => "outbox.workers = 2\nautovacuum = off\nwal_level = minimal\nmax_wal_senders = 0\ncheckpoint_timeout = '1h'\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'many', topic => q('many'), aggregate_types => q('{many}'), lanes => 64);
redis_route($node, $redis, 'other', topic => q('other'), aggregate_types => q('{other}'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub wal { return sql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')") }
sub rows { return sql('SELECT count(*) FROM outbox_internal.progress') }

sql(q{SELECT outbox.emit_text('many', i::text, 'x', 'x') FROM generate_series(1, 300) i});
ok(wait_idle($node), 'all lanes work');
is(sql('SELECT count(*) FROM outbox_internal.lane WHERE owner IS NOT NULL'), '65', 'sixty-five of them');

# After a restart each lane reads once more what it passed over, others' events, and says so once; nothing is repeated. The
# next time would be half a minute later.
$node->restart;
ok(wait_idle($node), 'back after a restart');
# (The keeper's last word, a ceiling of the clock, comes with its next round: five seconds.)
my ($last, $since, $began) = (0, time, time);
while (time < $since + 8 && time < $began + 60)
{
	my $now = wal();
	($last, $since) = ($now, time) if $now != $last;
	sleep 0.2;
}
my $rows = rows();
my $idle = $ENV{OUTBOX_TEST_IDLE_SECONDS} // 33; # longer than the half minute after which a lane that has moved says so
sleep $idle;
is(wal(), $last, sprintf 'no byte of WAL in %d s', 8 + $idle);
is(rows(), $rows, 'no row of progress');
is($redis->xlen('many'), 300, 'nothing was repeated');

# Others' transactions: they have nothing to say to a lane.
sql('CREATE TABLE t (i int)');
foreach my $i (1 .. 10) { sql("INSERT INTO t VALUES ($i)"); sleep 0.3 }
is(rows(), $rows, 'nor a row where transactions finish that emit nothing');

sql(q{SELECT outbox.emit_text('many', i::text, 'x', 'x') FROM generate_series(1, 10) i});
ok(wait_idle($node), 'more comes');
is($redis->xlen('many'), 310, 'once');

# Positions that are older than yesterday's tick keep its table no longer: nothing lies between. By then they are as old as
# the last event.
sql(q{CREATE TABLE outbox_internal.tick_20200101 (LIKE outbox_internal.tick);
	CREATE INDEX ON outbox_internal.tick_20200101 (at);
	SELECT pg_current_xact_id();});
sql(q{SET outbox.allow_loss = on; INSERT INTO outbox_internal.tick_20200101 VALUES ('2020-01-01 12:00+00', pg_current_snapshot());
	ALTER TABLE outbox_internal.tick ATTACH PARTITION outbox_internal.tick_20200101 FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00')});
$node->reload;
ok(wait_for_value($node, q{SELECT to_regclass('outbox_internal.tick_20200101') IS NULL}, 't', 60), 'a day of ticks is dropped');
sql(q{SELECT outbox.alter_route('many', lanes => 2)});
ok(wait_for_value($node, q{SELECT lanes FROM outbox.route WHERE name = 'many'}, '2', 60), 'the number of lanes changes');
ok(wait_idle($node), 'all is delivered');
is($redis->xlen('many'), 310, 'and nothing was repeated');
no_server_crashed($node);
done_testing();
