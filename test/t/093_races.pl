# Races that a load finds once in a million times, held still at a fault point:
#  - a transaction commits into a day table between the keeper's look and its lock
#  - a lane is claimed by a worker that another one, about to claim it, does not know yet
#  - a worker claims a lane while another one has its row locked
#  - the position up to which WAL has to be flushed is exactly the end of a page
# matrix: B12 B8 B16
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node(conf => "outbox.workers = 2\noutbox.retention = '2d'\noutbox.sort_mem = '256kB'\nautovacuum = off\n"
	  . "wal_writer_delay = 10s\ncheckpoint_timeout = 1h\n");
my $redis = Outbox::Redis->start;

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub set { sql("ALTER SYSTEM SET $_[0]"); sql('SELECT pg_reload_conf()'); return }
sub there { return sql("SELECT to_regclass('outbox_internal.$_[0]') IS NOT NULL") eq 't' }

# --- a late transaction and the drop of its day table -----------------------------------------------------------------
redis_route($node, $redis, 'redis', lanes => 2);
sql(q(SELECT outbox.emit('t', 'k', 'early', '1')));
ok(wait_idle($node), 'events flow');
my $table = sql('SELECT tableoid::regclass FROM outbox_internal.log') =~ s/^outbox_internal\.//r;
my ($in, $out) = ('', '');
my $writer = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$in, '>', \$out, '2>', \my $err);
sub tell_writer
{
	my ($statement) = @_;
	$out = '';
	$in .= "$statement;\nSELECT 'done';\n";
	my $deadline = time + 20;
	while ($out !~ /done/ && time < $deadline) { $writer->pump_nb; sleep 0.01 }
	return $out =~ /done/;
}
ok(tell_writer(q(BEGIN; SELECT outbox.emit('t', 'k', 'late', '2'))), 'a transaction emits and stays open');
sql(q(SELECT outbox.emit('t', 'k', 'other', '3')));
ok(wait_idle($node), 'others are delivered');
set('outbox.enabled = off');
ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'", 0), 'no relay worker runs');
Outbox::Faults::arm('drop.checked', 'wait');
Outbox::Faults::shift_clock(5 * 86_400 * 1_000_000);
sql('SELECT pg_reload_conf()');
ok(Outbox::Faults::await_waiting('drop.checked', 20), 'days later nothing visible is left to read: the keeper is about to lock the table');
ok(there($table), "which is $table");
ok(tell_writer('COMMIT'), 'the transaction commits at that moment');
my $before = sql('SELECT clock_timestamp()');
Outbox::Faults::release('drop.checked');
ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox keeper' AND state = 'idle' AND state_change > '$before'", 1),
	'the keeper goes on');
ok(there($table), 'the table stays');
is(sql("SELECT string_agg(event_type, ',') FROM outbox.peek('redis')"), 'late', 'and the event is what a lane reads next');
set('outbox.enabled = on');
ok(wait_idle($node), 'it is read');
is(join(' ', map { $_->{type} } @{ $redis->entries('outbox.event.t') }), 'early other late', 'and delivered');
$in .= "\\q\n";
$writer->finish;
for (1 .. 100) { last if !there($table); sql('SELECT pg_reload_conf()'); sleep 0.5 }
ok(!there($table), 'then the table is dropped');

# --- a worker that another one does not know --------------------------------------------------------------------------
sub owner { return sql("SELECT owner, claimed_at FROM outbox_internal.lane WHERE lane = $_[0]") }
sub live { return sql('SELECT count(DISTINCT owner) FROM outbox_internal.lane') }
sub both_owned { return wait_for_value($node, 'SELECT count(DISTINCT owner) FROM outbox_internal.lane WHERE owner IS NOT NULL', 2) }
ok(both_owned(), 'two workers have a lane each');
set('outbox.enabled = off');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.lane WHERE owner IS NOT NULL', 0), 'they give them back');
Outbox::Faults::arm('claim.listed', 'wait');
set('outbox.enabled = on');
ok(Outbox::Faults::await_waiting('claim.listed', 20), 'a worker is about to claim a lane, and has read which workers live');
ok(wait_for_value($node, 'SELECT count(*) > 0 FROM outbox_internal.lane WHERE owner IS NOT NULL', 't'), 'meanwhile the other one has claimed');
# It goes, and its successor, unknown to the one that waits, claims.
my $first = sql('SELECT owner FROM outbox_internal.lane WHERE owner IS NOT NULL LIMIT 1');
ok(wait_for_value($node, q(SELECT count(pg_terminate_backend(pid)) FROM outbox.worker WHERE kind = 'relay' AND lanes > 0), '1', 20), 'it goes');
ok(wait_for_value($node, "SELECT count(*) > 0 FROM outbox_internal.lane WHERE owner IS NOT NULL AND owner <> $first", 't'), 'and its successor');
my $claimed = sql('SELECT lane, owner, claimed_at FROM outbox_internal.lane WHERE owner IS NOT NULL ORDER BY lane LIMIT 1');
Outbox::Faults::release('claim.listed');
ok(both_owned(), 'both work');
is(sql("SELECT lane, owner, claimed_at FROM outbox_internal.lane WHERE lane = @{[ (split /\|/, $claimed)[0] ]}"), $claimed,
	'the lane was not taken from the worker that lives');

# --- a row that is locked ---------------------------------------------------------------------------------------------
set('outbox.enabled = off');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.lane WHERE owner IS NOT NULL', 0), 'lanes are given back');
Outbox::Faults::arm('claim.locked', 'wait');
set('outbox.enabled = on');
ok(Outbox::Faults::await_waiting('claim.locked', 20), 'a worker has locked the row of a lane');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.lane WHERE owner IS NOT NULL', 1), 'the other one passes it by, and claims the next');
Outbox::Faults::release('claim.locked');
ok(both_owned(), 'in the end both have one');

# --- the end of a page ------------------------------------------------------------------------------------------------
# Messages of just the size that is left bring the end of WAL to where the next page's header begins.
set('outbox.enabled = off');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.lane WHERE owner IS NOT NULL', 0), 'lanes are given back');
my $boundaries = 0;
foreach my $round (1 .. 12)
{
	set('outbox.enabled = on');
	both_owned();
	ok(wait_idle($node), "round $round: idle") or last;
	Outbox::Faults::arm('window.start', 'wait');
	# Too many for memory, so that the worker flushes up to where WAL ends and not only up to their commit.
	sql("SET synchronous_commit = off; SELECT count(outbox.emit_text('t', i % 7, 'page', repeat('x', 500))) FROM generate_series(1, 1500) i");
	Outbox::Faults::await_waiting('window.start', 20) or last;
	# The other lane's worker delivers and saves: that is over when WAL grows no more.
	for (my $last = ''; $last ne (my $now = sql('SELECT pg_current_wal_insert_lsn()')); $last = $now) { sleep 0.4 }
	my $at = sql(q(DO $$
		DECLARE room integer;
		BEGIN
			FOR i IN 1 .. 200 LOOP
				room := 8192 - (pg_current_wal_insert_lsn() - '0/0') % 8192;
				IF room IN (8192 - 24, 8192 - 40) THEN EXIT; END IF;
				-- A message takes 24 + 2 (5 from 256 bytes on) + 24 + 2 bytes and its own; records begin at multiples of 8.
				PERFORM pg_logical_emit_message(false, 'p', repeat('x', CASE WHEN room < 56 THEN 200 WHEN room <= 280 THEN room - 52 ELSE room - 55 END));
			END LOOP;
		END $$;
		SELECT (pg_current_wal_insert_lsn() - '0/0') % 8192));
	$boundaries++ if $at == 24 || $at == 40;
	Outbox::Faults::release('window.start');
	ok(wait_idle($node), "round $round: WAL ended $at bytes into a page");
	set('outbox.enabled = off');
	wait_for_value($node, 'SELECT count(*) FROM outbox_internal.lane WHERE owner IS NOT NULL', 0);
}
cmp_ok($boundaries, '>', 2, "WAL ended on the end of a page $boundaries times");
unlike(slurp_file($node->logfile), qr/xlog flush request .* is not satisfied|past end of generated WAL/, 'and no flush beyond the end of WAL was asked for');
no_server_crashed($node);
done_testing();
