# A full disk. Under the log: emit() raises 53100, the caller's rows roll back with it, nothing of that is published. Under
# the progress table: what is committed is delivered all the same, the trouble is told in outbox.lag, in doctor() and, not
# too often, in the server's log; a successor sends again what could not be noted, with the same ids and bytes. Under
# pg_wal: the server goes down, by PostgreSQL's own rule. With space again everything goes on by itself.
# matrix: B14 F4
use strict;
use warnings;

use Outbox::Disk;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

Outbox::Disk::skip_without();
my $node = new_node(conf => "restart_after_crash = off\nautovacuum = off\noutbox.workers = 1\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql("CREATE TABLESPACE small LOCATION '" . Outbox::Disk::directory('day tables') . "'");
sql("ALTER TABLE outbox_internal.$_ SET TABLESPACE small") foreach qw(log progress tick outcome);
sql('CREATE TABLE orders (id integer PRIMARY KEY, note text); CREATE SEQUENCE number');
# A business transaction: an order and its event, of which the payload says the order's number and fills half a page.
sql(q(CREATE PROCEDURE order_one() LANGUAGE plpgsql AS $$
	DECLARE n integer := nextval('public.number'); note text := n || ' ' || (SELECT string_agg(md5(random()::text || i), '') FROM generate_series(1, 120) i);
	BEGIN
		INSERT INTO public.orders VALUES (n, note);
		PERFORM outbox.emit_text('order', (n % 7)::text, 'order.made', note);
	END $$));
redis_route($node, $redis, 'redis', topic => q('full'));

# SQLSTATE of a statement; '' when it went well.
sub state_of
{
	my ($statement) = @_;
	my $err = '';
	my ($status) = $node->psql('postgres', $statement, stderr => \$err, extra_params => [ '--set=VERBOSITY=sqlstate' ]);
	return $status == 0 ? '' : $err =~ /(?:ERROR|FATAL): +(\w{5})/ ? $1 : $err;
}
sub orders { return sql('SELECT count(*) FROM orders') }
sub numbers { return sql(q(SELECT string_agg(id::text, ' ' ORDER BY id) FROM orders)) }
# What arrived for whom, first occurrences only; a repeat has to be the same in all its fields.
sub arrived
{
	my (%seen, @numbers, @different);
	foreach my $entry (@{ $redis->entries('full') })
	{
		my $bytes = join "\0", map { "$_=$entry->{$_}" } grep { $_ ne '_entry' } sort keys %$entry;
		if (!defined $seen{ $entry->{id} }) { $seen{ $entry->{id} } = $bytes; push @numbers, $entry->{payload} =~ /^(\d+) / }
		elsif ($seen{ $entry->{id} } ne $bytes) { push @different, $entry->{id} }
	}
	return (\@numbers, \@different);
}
sub trouble_is { my ($code) = @_; return wait_for_value($node, q(SELECT coalesce(error_code, 'none') FROM outbox.lag), $code, 30) }

sql('CALL order_one()') foreach 1 .. 20;
ok(wait_idle($node), 'events flow');
is(sql(q(SELECT string_agg(DISTINCT t.spcname, ' ') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_tablespace t ON t.oid = c.reltablespace
	WHERE i.inhparent IN ('outbox_internal.log'::regclass, 'outbox_internal.progress'::regclass))), 'small', 'day tables are on the small disk');

# --- the log has no room ----------------------------------------------------------------------------------------------
$redis->pause;
sql('DO $$ BEGIN FOR i IN 1 .. 500 LOOP CALL public.order_one(); COMMIT; END LOOP; END $$');
my $committed = orders();
is($committed, 520, 'a backlog is committed, which the destination does not take yet');
Outbox::Disk::fill();
my $state = '';
for (1 .. 50) { last if ($state = state_of('CALL order_one()')) ne ''; $committed++ }
is($state, '53100', 'emit() says that the disk is full');
is(orders(), $committed, "the caller's row rolled back with it");
is(state_of('CALL order_one()'), '53100', 'and again') foreach 1 .. 3;
is(state_of(q(SELECT outbox.emit_many((SELECT jsonb_agg(jsonb_build_object('aggregate_type', 'order', 'aggregate_id', 'x', 'event_type', 'y',
	'payload', md5(i::text))) FROM generate_series(1, 1000) i)))), '53100', 'emit_many() reports it, too');
is(state_of(q(INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', 'x', 'y', to_jsonb(md5(i::text))
	FROM generate_series(1, 1000) i)), '53100', 'the view reports it, too');
is(state_of(q(DO $$ BEGIN
	BEGIN CALL public.order_one(); EXCEPTION WHEN disk_full THEN NULL; END;
	INSERT INTO public.orders VALUES (1000000, 'caught'); END $$)), '', 'a caller that catches it goes on without the event');
sql('DELETE FROM orders WHERE id = 1000000');

# --- nor has progress -------------------------------------------------------------------------------------------------
# What room its pages have left is taken by small rows of a route that there is not.
my $row = q(INSERT INTO outbox_internal.progress (at, route_id, lane, window_from) VALUES (now(), 2000000000, 0, '3:3:'););
my $err = '';
$node->psql('postgres', "SET outbox.allow_loss = on;\n" . "$row\n" x 300, on_error_stop => 0, stderr => \$err, extra_params => [ '--set=VERBOSITY=sqlstate' ]);
like($err, qr/53100/, 'the progress table is full to the last page');
my ($pid) = relay_pids($node);
my $mark = -s $node->logfile;
$redis->cont;
ok(wait_until(sub { $redis->xlen('full') >= $committed }, 30), 'all that was committed is delivered while the disk is full');
ok(trouble_is('53100'), 'outbox.lag says that the lane cannot note it');
like(sql(q(SELECT string_agg(detail, ' ') FROM outbox.doctor() WHERE status <> 'ok' AND "check" = 'lane')), qr/53100/, 'doctor() too');
like(sql(q(SELECT hint FROM outbox.doctor() WHERE status <> 'ok' AND "check" = 'lane')), qr/^Give the disk room\. Deliveries go on/, 'and what to do');
ok(wait_until(sub { slurp_file($node->logfile, $mark) =~ /outbox: lane 0 of route "redis" is in trouble/ }, 30), "the server's log too");
ok(wait_until(sub { slurp_file($node->logfile, $mark) =~ /HINT:  Give the disk room/ }, 5), 'with what to do');
is((relay_pids($node))[0], $pid, 'by the same worker');
my ($numbers, $different) = arrived();
is(join(' ', sort { $a <=> $b } @$numbers), numbers(), 'what arrived is what was committed, nothing of what failed');

# The worker is restarted: its successor has to send the backlog again.
my $before = $redis->xlen('full');
sql("SELECT pg_terminate_backend($pid)");
ok(wait_until(sub { $redis->xlen('full') >= $before + 500 }, 30), 'a successor sends again what could not be noted');
ok(trouble_is('53100'), 'and has the same trouble');
sleep 3; # in which a log would be flooded
my $lines = () = slurp_file($node->logfile, $mark) =~ /(lane 0 of route "redis" is in trouble|outbox (?:relay|keeper): )/g;
cmp_ok($lines, '<=', 6, "the log is not flooded: $lines lines");

# --- space again ------------------------------------------------------------------------------------------------------
Outbox::Disk::free();
sql('CALL order_one()') foreach 1 .. 20;
ok(wait_idle($node, 30), 'with space again all goes on by itself');
ok(trouble_is('none'), 'outbox.lag has nothing to say any more');
($numbers, $different) = arrived();
is(join(' ', sort { $a <=> $b } @$numbers), numbers(), 'nothing lost, nothing made up');
is(scalar @$different, 0, 'what came twice has the same bytes');
my (%last, @late);
foreach my $number (@$numbers) { push @late, $number if ($last{ $number % 7 } // 0) > $number; $last{ $number % 7 } = $number }
is("@late", '', 'in order per key');
$before = $redis->xlen('full');
$node->restart;
sql('CALL order_one()');
ok(wait_idle($node), 'after a restart');
is($redis->xlen('full'), $before + 1, 'nothing is sent again: progress is noted');
no_server_crashed($node);
$node->stop;

# --- pg_wal -----------------------------------------------------------------------------------------------------------
my $walled = new_node(name => 'walled', init => [ '-X', Outbox::Disk::directory('wal') . '/pg_wal', '--wal-segsize=1' ],
	conf => "restart_after_crash = on\nmin_wal_size = 2MB\nmax_wal_size = 200MB\ncheckpoint_timeout = 1h\noutbox.workers = 1\n");
redis_route($walled, $redis, 'redis', topic => q('walled'));
$walled->safe_psql('postgres', 'CREATE TABLE written (n integer)');
my @sure;    # committed, as far as the client was told
my $n = 0;
sub write_one
{
	$n++;
	my ($status) = eval { $walled->psql('postgres', "SET statement_timeout = '20s'; BEGIN; INSERT INTO written VALUES ($n); SELECT outbox.emit_text('w', 'k', 'x',
		$n || ' ' || (SELECT string_agg(md5(random()::text || i), '') FROM generate_series(1, 3000) i)); COMMIT") };
	return 0 if !defined $status || $status != 0;
	push @sure, $n;
	return 1;
}
write_one() foreach 1 .. 5;
ok(wait_idle($walled), 'events flow');
Outbox::Disk::fill();
for (1 .. 200) { last if !write_one() }
ok(slurp_file($walled->logfile) =~ /PANIC: .*No space left on device/, 'the server goes down when its WAL has no room: PostgreSQL\'s own rule');
wait_until(sub { !write_one() }, 5);
Outbox::Disk::free();
$walled->stop('immediate', fail_ok => 1);
ok(wait_until(sub { $walled->start(fail_ok => 1) }, 30), 'with space again it starts');
write_one() foreach 1 .. 5;
ok(wait_idle($walled), 'and all goes on');
my %there = map { $_ => 1 } split /\n/, $walled->safe_psql('postgres', 'SELECT n FROM written');
my %seen = map { /^(\d+) / ? ($1 => 1) : ($_ => 1) } @{ $redis->column('walled', 'payload') };
is(join(' ', grep { !$there{$_} } @sure), '', 'nothing that was committed is lost');
is(join(' ', sort { $a <=> $b } keys %seen), join(' ', sort { $a <=> $b } keys %there), 'what was published is what survived, all of it');
cmp_ok(scalar @sure, '>', 10, scalar(@sure) . ' transactions committed, ' . keys(%there) . ' survived');
done_testing();
