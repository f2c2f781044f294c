# Whatever a session has locked, and for however long: tables of the extension in every mode, rows, or what an operator's
# function has done in a transaction that is still open. Events of other routes are not late, no worker is ever seen
# waiting for a lock for long, and what needed the lock is done when it has gone. One worker does all. 223 holds each mode for
# ten seconds.
# matrix: S4 R5
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node(conf => "outbox.workers = 1\noutbox.days_ahead = 1\n");
# Not "always": how long an fsync takes on a disk that others use, too, would be in what is measured here.
my $redis = Outbox::Redis->start(conf => ['appendfsync no']);
redis_route($node, $redis, 'a', topic => q('a'), aggregate_types => q('{a}'), lanes => 2);
redis_route($node, $redis, 'b', topic => q('b'), aggregate_types => q('{b}'), lanes => 64);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

# Events of b, one every 20 ms in a transaction of its own, under changing keys: each says when it was emitted.
sql(q{CREATE TABLE stop ();
	CREATE PROCEDURE flow() LANGUAGE plpgsql AS $$
	DECLARE n int := 0;
	BEGIN
	  WHILE to_regclass('stop') IS NOT NULL LOOP
	    n := n + 1;
	    PERFORM outbox.emit_text('b', (n % 200)::text, 'x', (extract(epoch FROM clock_timestamp()) * 1000)::bigint::text);
	    COMMIT;
	    PERFORM pg_sleep(0.02);
	  END LOOP;
	END $$;
	CREATE TABLE seen (waited interval, pid int, what text);
	CREATE PROCEDURE watch() LANGUAGE plpgsql AS $$
	BEGIN
	  WHILE to_regclass('stop') IS NOT NULL LOOP
	    INSERT INTO seen SELECT clock_timestamp() - l.waitstart, l.pid, l.locktype || ' ' || l.mode || ' ' || coalesce(l.relation::regclass::text, '')
	      FROM pg_locks l JOIN pg_stat_activity a USING (pid)
	      WHERE NOT l.granted AND a.backend_type LIKE 'outbox %' AND l.waitstart < clock_timestamp() - interval '5 ms';
	    COMMIT;
	    PERFORM pg_sleep(0.03);
	  END LOOP;
	END $$});
# Events of a: they are parked until their time has come, which takes locks.
my $wanted = 0;
sub scheduled { $wanted += 4; return sql(q{SELECT count(outbox.emit_text('a', i::text, 'x', 'x', deliver_at => clock_timestamp() + interval '0.2 s')) FROM generate_series(1, 4) i}) }
sub a_comes { my ($what) = @_; return ok(wait_until(sub { $redis->xlen('a') >= $wanted }, 30), $what) }
scheduled();
sql(q{SELECT outbox.emit_text('b', i::text, 'x', '0') FROM generate_series(1, 200) i});
ok(wait_idle($node), 'all lanes work');
a_comes('scheduled events come');
# One for the operators' functions to act upon, kept from being sent by the time that it has.
sql(q{SELECT outbox.emit_text('a', 'later', 'x', 'x', deliver_at => now() + interval '1 hour')});
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '1'), 'something is parked');

my %background = map { $_ => $node->background_psql('postgres', on_error_stop => 1, timeout => 600) } qw(flow watch);
$background{$_}->query_until(qr/^$/m, "CALL $_();\n") foreach sort keys %background;
my @phases;

# Does what is said in a transaction and keeps that open for so long; what a needs done meanwhile is done afterwards.
sub held
{
	my ($name, $seconds, @statements) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
	$session->query_safe('SET client_min_messages = warning; BEGIN');
	$session->query_safe($_) foreach @statements;
	my $began = time;
	scheduled() unless $name =~ /log_/;
	# Workers and the keeper look at routes, lanes and the extension.
	sql('SELECT pg_reload_conf()') if $seconds > 1;
	sleep($seconds); # as long as it is held
	push @phases, { name => $name, began => $began, ended => time };
	$session->query_safe('ROLLBACK');
	$session->quit;
	return;
}

my $today = sql("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')");
# An emit waits for some locks on the table of the day, as for any table; it is looked at below.
my @tables = split /\n/, sql("SELECT c.oid::regclass FROM pg_class c WHERE relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
	AND relkind IN ('r', 'p') AND relname <> 'log_$today' ORDER BY 1");
cmp_ok(scalar @tables, '>', 20, 'there are many tables');
foreach my $mode ('ACCESS SHARE', 'ROW SHARE', 'ROW EXCLUSIVE', 'SHARE UPDATE EXCLUSIVE', 'SHARE', 'SHARE ROW EXCLUSIVE', 'EXCLUSIVE',
	'ACCESS EXCLUSIVE')
{
	held("all tables in $mode mode", $ENV{OUTBOX_TEST_LOCK_SECONDS} // 1.1, 'LOCK TABLE ' . join(', ', map { "ONLY $_" } @tables) . " IN $mode MODE");
	a_comes("events of the locked tables come after $mode");
}
foreach my $table (grep { !/_\d{8}$/ } @tables)
{
	held("$table alone", 0.4, "LOCK TABLE ONLY $table IN ACCESS EXCLUSIVE MODE");
}
a_comes('events of each locked table come');
foreach my $table (grep { !/_\d{8}$|identity|origin|outbox_internal\.log$/ && sql("SELECT relkind FROM pg_class WHERE oid = '$_'::regclass") eq 'r' } @tables)
{
	held("all rows of $table", 0.3, "SELECT count(*) FROM (SELECT FROM $table FOR UPDATE) l");
}
a_comes('events of locked rows come');

my $id = q{(SELECT id FROM outbox_internal.parked LIMIT 1)};
foreach my $function (
	q{outbox.alter_route('a', topic => 'other')},
	q{outbox.alter_route('a', on_failure => 'block')},
	q{outbox.alter_route('a', lanes => 5)},
	q{outbox.drop_route('a')},
	q{outbox.create_route('new', server => 'a')},
	q{outbox.pause(route => 'a', reason => 'r')},
	q{outbox.pause(server => 'a', reason => 'r')},
	qq{outbox.retry($id)},
	qq{outbox.skip($id, reason => 'r')})
{
	held($function, 0.4, "SELECT $function");
}
sql(q{SELECT outbox.pause(route => 'a', topic => 'none', reason => 'r')});
held('resume', 0.5, q{SELECT outbox.resume(route => 'a', topic => 'none', reason => 'r')});
sql(q{SELECT outbox.resume(route => 'a', topic => 'none', reason => 'r')});
a_comes('events of all routes that were being changed come');
# Procedures commit by themselves; their moments are short.
push @phases, { name => 'seek, replay and redrive', began => time };
foreach (1 .. 3)
{
	sql(q{CALL outbox.seek('a', 'infinity', dry_run => false)});
	sql(q{CALL outbox.replay(since => now() - interval '1 ms', route => 'b', per_second => NULL, dry_run => false)});
	sql(q{CALL outbox.redrive(route => 'a', reason => 'r', dry_run => false)});
}
$phases[-1]{ended} = time;

# For long: all rows and locks of a route that is being dropped; and what workers read and write most.
held('ten seconds of alter_route', 10, q{SELECT outbox.alter_route('a', topic => 'other')}, 'LOCK TABLE outbox_internal.parked IN EXCLUSIVE MODE');
a_comes('and its events come afterwards');
held('three seconds of drop_route', 3, q{SELECT outbox.drop_route('a')});
a_comes('they come after that was taken back, too');

# An operator who takes a worker for a user's session.
my @pids = split /\n/, sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'outbox %' ORDER BY 1});
foreach (1 .. 20) { sql("SELECT pg_cancel_backend(pid) FROM unnest(ARRAY[" . join(',', @pids) . "]) pid"); sleep 0.05 }
is_deeply([ split /\n/, sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'outbox %' ORDER BY 1}) ], \@pids, 'pg_cancel_backend() ends no worker');

# Where emitting itself waits: what has been emitted before is served.
foreach my $mode ('SHARE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE')
{
	$wanted += 4;
	sql(q{SELECT count(outbox.emit_text('a', i::text, 'x', 'x', deliver_at => clock_timestamp() + interval '2 s')) FROM generate_series(1, 4) i});
	ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'scheduled'}, '5'), 'events are scheduled');
	my $session = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
	$session->query_safe("BEGIN; LOCK TABLE outbox_internal.log_$today IN $mode MODE");
	ok(wait_until(sub { $redis->xlen('a') >= $wanted }, 30), "scheduled events come while the day's table is locked in $mode mode");
	$session->query_safe('COMMIT');
	$session->quit;
}

sql('DROP TABLE stop');
ok(wait_idle($node), 'all is delivered');
foreach my $entry (@{ $redis->entries('b') })
{
	my ($came) = $entry->{_entry} =~ /^(\d+)/;
	foreach my $phase (@phases)
	{
		push @{ $phase->{late} }, $came - $entry->{payload}
		  if $entry->{payload} >= $phase->{began} * 1000 && $entry->{payload} < $phase->{ended} * 1000;
	}
}
foreach my $phase (@phases)
{
	my @late = sort { $a <=> $b } @{ $phase->{late} // [] };
	my $middle = @late ? $late[ @late / 2 ] : 'none came';
	note(sprintf '%-45s %3d events, median %s ms, longest %s ms', $phase->{name}, scalar @late, $middle, $late[-1] // '-');
	# Held for half a second and more: a session waits for that a quarter of a second in the mean.
	my $bound = 1000 * ($phase->{ended} - $phase->{began}) / 4;
	$bound = 150 if $bound < 150;
	ok(@late > 0 && $middle < $bound, "others' events are not late: $phase->{name}")
	  or diag(join ' ', map { "$_" } @late);
}
foreach my $phase (grep { $_->{ended} - $_->{began} >= 10 } @phases)
{
	cmp_ok((sort { $a <=> $b } @{ $phase->{late} })[-1], '<', 3000, "none of them in ten seconds: $phase->{name}");
}

my ($waits, $longest, $often) = split /\|/, sql(q{SELECT count(*), coalesce(max(waited), '0') > interval '1 s', count(*) FILTER (WHERE waited > interval '100 ms') FROM seen});
note("workers were seen waiting $waits times, $often times for more than 100 ms");
is($longest, 'f', 'no worker waits for a lock for long') or diag(sql('SELECT * FROM seen ORDER BY waited DESC LIMIT 5'));
cmp_ok($often, '<=', 2, 'nor more than a moment') or diag(sql('SELECT * FROM seen ORDER BY waited DESC LIMIT 5'));
my $log = slurp_file($node->logfile);
like($log, qr/outbox relay, [a-z ]+: canceling statement due to lock timeout|another session holds a lock/, 'there was something to give up');
unlike($log, qr/deadlock detected/, 'there was no deadlock');
$_->quit foreach values %background;
no_server_crashed($node);
done_testing();
