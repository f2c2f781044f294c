# The inbox on a server that has not preloaded outbox, where the calls do the upkeep: days go as a whole when outbox.inbox_retention
# is over, one table in a transaction, when it commits, and none that anybody else is using, and an event older than that is refused
# rather than handled again; a transaction that lies idle or is prepared holds nobody up. Midnight, a clock that jumps ahead and is put back, a month of silence; marks are in a dump; 65 consumers.
# matrix: R95
use strict;
use warnings;

use File::Temp ();
use Outbox::Clock;
use Outbox::Test;
use Test::More;

my $clock = File::Temp::tempdir('outbox-clock.XXXXXX', TMPDIR => 1, CLEANUP => 1);
chmod 0755, $clock;
Outbox::Clock::prepare($clock);
my $node = Outbox::Clock::with(sub { new_node(extension => 0, conf => "shared_preload_libraries = ''\nautovacuum = off\n") });
my $database = 'postgres';
# (What waits for a lock fails.)
sub sql { my ($sql) = @_; return $node->safe_psql($database, "SET client_min_messages = error; SET lock_timeout = '10s';\n$sql") }
sub refused { my ($sql) = @_; my ($code, $out, $err) = $node->psql($database, $sql); return $code == 0 ? "not refused: $out" : $err }
$node->safe_psql('postgres', 'SET client_min_messages = error; CREATE EXTENSION outbox');

# An id of so many days ago. Days are what counts, so "now" is noon of today: nothing here is about hours.
my $helpers = q{
	CREATE FUNCTION id(days integer, n integer DEFAULT 1) RETURNS uuid LANGUAGE sql AS $$
	  SELECT (lpad(to_hex((extract(epoch FROM date_trunc('day', now(), 'UTC') + interval '12 hours' - days * interval '1 day') * 1000)::bigint), 12, '0')
	    || '70008' || lpad(n::text, 15, '0'))::uuid $$;
	CREATE VIEW kept AS SELECT (date_trunc('day', now(), 'UTC') AT TIME ZONE 'UTC')::date - kept_from AS days FROM outbox_internal.inbox_kept};
sql($helpers);

# --- the setting is there as soon as the library is, and is a database's own
sql("ALTER DATABASE postgres SET outbox.inbox_retention = '3d'");
is(sql(q{SELECT outbox.receive('c', id(0))}), 't', 'the first call');
is(sql('SHOW outbox.inbox_retention'), '3d', "the database's retention");
is(sql('SELECT count(*) FROM outbox_internal.inbox_kept'), 1, 'from when on marks are kept is settled with it');

# --- days older than the retention are not taken, and are told of
is(sql('SELECT days FROM kept'), 3, 'marks are kept for three days, from that of three days ago on');
like(refused(q{SELECT outbox.receive('c', id(4))}), qr/older than what the inbox remembers/, 'what is older is refused');
is(sql(q{SET outbox.inbox_expired = skip; SELECT outbox.receive('c', id(4))}), 'f', 'or passed over');
is(sql(q{SET outbox.inbox_expired = accept; SELECT outbox.receive('c', id(4)), outbox.receive('c', id(4))}), 't|f', 'or taken, once');

# --- a day goes: as time goes by, it is put back by hand, as if it had been written for days
sub days_go_by
{
	my ($days) = @_;
	# The row of what is kept, and the marks with it, grow older by so much.
	return sql("SET outbox.allow_loss = on; UPDATE outbox_internal.inbox_kept SET kept_from = kept_from - $days");
}
days_go_by(20);
# (Oldest first: days are given up by the ids that come, too.)
is(sql(q{SELECT count(*) FILTER (WHERE outbox.receive('c', id(d, 2))) FROM (SELECT d FROM generate_series(3, 10) d ORDER BY d DESC) x}), '8', 'a week of marks');
# How many tables one call has emptied: those that have new storage.
sub storage { return sql(q{SELECT string_agg(relfilenode::text, ' ' ORDER BY relname) FROM pg_class WHERE relname ~ '^inbox_(day|undated).*[0-9ab]$'}) }
sub emptied_by
{
	my ($call) = @_;
	my @before = split / /, storage();
	$node->safe_psql($database, $call);
	my @after = split / /, storage();
	return scalar grep { $before[$_] ne $after[$_] } 0 .. $#before;
}
my @emptied = map { emptied_by("SELECT outbox.receive('c', id(0, 100 + $_))") } 1 .. 12;
ok(!(grep { $_ > 1 } @emptied), "a call empties one table at most (@emptied)");
ok((grep { $_ == 1 } @emptied) >= 3, 'and some call does');
is(sql('SELECT days FROM kept'), 3, 'until all is gone that is over');
is(sql(q{SELECT count(*) FROM outbox.received WHERE what = 'event' AND day < (now() AT TIME ZONE 'UTC')::date - 3}), 0, 'no row of it is left');
is(sql(q{SELECT outbox.receive('c', id(3, 2)), outbox.receive('c', id(0))}), 'f|f', 'and what is kept is known');
like(refused(q{SELECT outbox.receive('c', id(5, 2))}), qr/older than what/, 'a late repeat of what is gone is refused');

# --- no lock is waited for: a reader of the day, of a dump for instance; nor is anybody kept waiting
days_go_by(1);
my $old = sql(q{SELECT format('outbox_internal.inbox_day_%s', lpad(((kept_from - '1970-01-01'::date) % 32)::text, 2, '0')) FROM outbox_internal.inbox_kept});
sql(q{SELECT outbox.receive('c', id(3, 9))});
sql(q{SELECT outbox.receive('c', id(0, 199))});    # its day is not kept from now on
sql("SET outbox.allow_loss = on; INSERT INTO $old VALUES ('00000000-0000-7000-8000-000000000000', 'old')");
my $reader = $node->background_psql('postgres');
$reader->query_safe("BEGIN; SELECT count(*) FROM $old");
is(sql(q{SET lock_timeout = '1ms'; SELECT outbox.receive('c', id(0, 200))}), 't', 'with the day locked by a reader, a call waits for nothing');
is(sql("SELECT count(*) FROM $old"), 1, 'and leaves it');
$reader->query_safe('COMMIT');
my $holder = $node->background_psql('postgres');
$holder->query_safe(q{BEGIN; SELECT outbox.receive('c', id(0, 201))});
is(sql("SELECT count(*) FROM $old"), 1, 'the next one leaves it to its commit');
is(sql(q{SET lock_timeout = '1ms'; SET outbox.inbox_expired = skip; SELECT outbox.receive('c', id(36, 9)), outbox.forget_consumer('nobody')}), 'f|0', 'so that old events wait for nobody either');
is(sql(q{SET lock_timeout = '1ms'; SELECT outbox.receive('c', id(0, 202)), outbox.receive('c', id(1, 202)), outbox.receive('c', id(2, 202))}), 't|t|t',
	'a transaction that is to do the upkeep holds nothing that others need');
is(sql("SELECT count(*) FROM $old"), 0, 'and others do it, when they commit');
is(sql(q{SET lock_timeout = '1ms'; SELECT outbox.receive('c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')}), 't', 'nor an id without a time');
$holder->query_safe('ROLLBACK');
is(sql(q{SELECT outbox.receive('c', id(0, 201))}), 't', 'rolled back, the upkeep and the mark');
$holder->quit;
$reader->quit;

# --- what a call has found kept stays so: the batch that would have the oldest day emptied has an id of that day first
days_go_by(1);
sql(q{SELECT outbox.receive('c', id(4, 5))});
is(sql(q{SELECT outbox.receive_many('c', ARRAY[id(4, 5), id(0, 900)]) = id(0, 900)}), 't', 'a batch that goes from the oldest day to today: what was handled is not new');
is(sql(q{SELECT outbox.receive('c', id(4, 5))}), 'f', 'nor later on');
is(sql(qq{BEGIN; SELECT outbox.receive('c', id(4, 5)); SELECT outbox.receive('c', id(0, 901)); SELECT outbox.receive('c', id(4, 5)); COMMIT}), "f\nt\nf",
	'nor in a transaction of several calls');
my $day = q{SELECT count(*) FROM outbox.received WHERE what = 'event' AND day = (now() AT TIME ZONE 'UTC')::date - 4};
is(sql($day), 1, 'the day is left by those who look at it');
is(sql(q{SELECT outbox.receive('c', id(0, 902))}), 't', 'and goes with a call that does not');
is(sql($day), 0, 'as it has to');
days_go_by(29);
sql(q{SELECT outbox.receive('c', id(32, 6))});
is(sql(q{SELECT outbox.receive_many('c', ARRAY[id(32, 6), id(0, 903)]) = id(0, 903)}), 't', 'nor where the same batch has to catch up by weeks');
is(sql(q{SELECT outbox.receive_many('c', ARRAY[id(0, 903), id(0, 904)]) = id(0, 904)}), 't', 'and what is new is taken, once');

# --- what doctor() says of it: nothing is wrong where nothing is; what cannot be kept up, and what would have events handled twice
sub doctor { my ($check) = @_; return sql(qq{SELECT string_agg(status || ': ' || detail, E'\n') FROM outbox.doctor() WHERE "check" = '$check'}) }
sub hint { return sql(q{SELECT hint FROM outbox.doctor() WHERE "check" = 'inbox'}) }
like(doctor('preload'), qr/^ok: .*consumers receive here/, 'an inbox alone needs no preload');
like(doctor('inbox'), qr/^ok: Consumers receive here; marks are kept from \d{4}-\d\d-\d\d on\.$/, 'all is well');
days_go_by(5);
my $first = sql(q{SELECT format('inbox_day_%s', lpad(((kept_from - '1970-01-01'::date) % 32)::text, 2, '0')) FROM outbox_internal.inbox_kept});
like(doctor('inbox'), qr/^ok: /, 'nobody has received for days: the next call drops them');
$reader = $node->background_psql('postgres');
$reader->query_safe("SET application_name = 'a dump'; BEGIN; SELECT count(*) FROM outbox_internal.$first");
like(doctor('inbox'), qr/^warning: Marks of \S+ and later days are kept beyond outbox.inbox_retention \(3d\): outbox_internal.$first cannot be emptied, it is in use by process \d+ \(a dump\), in a transaction since/,
	'a table that is in use is named, and by whom');
$reader->query_safe("COMMIT; BEGIN; LOCK TABLE outbox_internal.inbox_kept");
like(doctor('inbox'), qr/^warning: outbox_internal.inbox_kept is locked/, 'a lock is told of, and not waited for');
$reader->query_safe('ROLLBACK');
$reader->quit;
sql(qq{SELECT outbox.receive('c', id(0, 25$_))}) foreach 1 .. 6;
is(sql('SELECT days FROM kept'), 3, 'it goes by itself when that has ended');
sql(q{UPDATE outbox_internal.inbox_kept SET kept_from = kept_from + 40});
like(doctor('inbox'), qr/^problem: Marks are kept from \S+ on, and events of the days before count as older/, 'a day that is yet to come');
ok(refused(q{SELECT outbox.receive('c', id(0, 260))}) =~ /older than what/ && hint() =~ /(UPDATE .*;)/ && sql($1) eq '', 'what doctor() says to do about that works');
is(sql(q{SELECT days || ' ' || outbox.receive('c', id(0, 260)) FROM kept}), '3 true', 'and puts it right');
sql(q{ALTER DATABASE postgres SET outbox.inbox_retention = '10d'});
like(doctor('inbox'), qr/^ok: .* as far back as outbox.inbox_retention \(10d\) says from \S+ on\.$/, 'a longer retention holds for days to come');
sql(q{ALTER DATABASE postgres SET outbox.inbox_retention = '3d'; ALTER ROLE ALL SET outbox.inbox_expired = 'accept'; CREATE ROLE loads; ALTER ROLE loads IN DATABASE postgres SET outbox.inbox_expired = 'Accept'});
is(sql(q{SELECT count(*) FROM outbox.doctor() WHERE "check" = 'inbox' AND status = 'warning' AND detail ~ '"accept" for more than a session'}), 2, 'a setting that lets repeats through is told of, of a role and of all');
sql(sql(q{SELECT string_agg(substring(hint FROM 'ALTER .*;'), ' ') FROM outbox.doctor() WHERE "check" = 'inbox'}));
like(doctor('inbox'), qr/^ok: /, 'and taken back as it says');
like(sql("BEGIN; UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'outbox_internal.inbox_day_07_pkey'::regclass;
	SELECT status || ' ' || detail FROM outbox.doctor() WHERE \"check\" = 'inbox'; ROLLBACK"), qr/^problem outbox_internal.inbox_day_07 has no valid primary key/, 'a table without its index');

# --- an undated mark lives for one retention at least, two at most, whichever table was emptied
sub undated { return sql(q{SELECT outbox.receive('u', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a77')}) }
is(undated(), 't', 'undated: new');
foreach my $turn (1, 2)
{
	sql(q{UPDATE outbox_internal.inbox_kept SET turned_at = now() - interval '3 days 1 second'});
	sql(q{SELECT outbox.receive('c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')});
	is(sql(q{SELECT outbox.receive_next('x', 's', 1)}), $turn == 1 ? 'next' : 'repeat', 'streams stay');
	is(sql(q{SELECT count(*) FROM outbox.received WHERE consumer = 'u'}), 2 - $turn, "undated: in one table less, emptied $turn times");
}
is(undated(), 't', 'undated: forgotten after two');
# Emptying them is left to the commit: all undated ids go through both, and a transaction may lie idle or be prepared.
sub turned { return sql(q{SELECT turned_at > now() - interval '1 hour' FROM outbox_internal.inbox_kept}) }
sub in_time { my ($call) = @_; return sql("SET lock_timeout = '1ms'; SELECT outbox.receive('u', '$call')") }
my $undated = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd38';
my $is_over = q{UPDATE outbox_internal.inbox_kept SET turned_at = now() - interval '3 days 1 second'};
sql($is_over);
my $idle = $node->background_psql('postgres');
$idle->query_safe("BEGIN; SELECT outbox.receive('u', '${undated}0001')");
is(in_time("${undated}0002"), 't', 'undated: others wait for no transaction that is idle');
is(turned(), 'f', 'and empty nothing while it has an id of it');
$idle->query_safe('COMMIT');
is(turned(), 't', 'which is done when it commits');
is(in_time("${undated}0001") . in_time("${undated}0002"), 'ff', 'and what both have marked is known');
sql($is_over);
sql("BEGIN; SELECT outbox.receive('u', '${undated}0003'); PREPARE TRANSACTION 'p'");
is(in_time("${undated}0004"), 't', 'undated: nor for one that is prepared');
sql(q{COMMIT PREPARED 'p'});
is(in_time("${undated}0003"), 'f', 'whose mark counts');
is(turned(), 't', 'and others empty the table after it');
# What a commit may meet: of a procedure's loop, of a transaction that is read only by then, that drops the extension.
sql($is_over);
sql("DO \$\$ BEGIN FOR i IN 1..3 LOOP PERFORM outbox.receive('u', ('${undated}100' || i)::uuid); COMMIT; END LOOP; END \$\$");
is(turned() . in_time("${undated}1001") . in_time("${undated}1003"), 'tff', 'undated: emptied by a commit within a procedure');
sql($is_over);
sql("BEGIN; SELECT outbox.receive('u', '${undated}1004'); SET TRANSACTION READ ONLY; COMMIT");
is(turned() . in_time("${undated}1004"), 'ff', 'not by a transaction that may not write any more');
sql($is_over);
sql("BEGIN; SAVEPOINT s; SELECT outbox.receive('u', '${undated}1005'); ROLLBACK TO s; COMMIT");
is(turned() . in_time("${undated}1005"), 'tt', 'by one that has taken its mark back');
sql($is_over);
is(sql("BEGIN; SELECT outbox.receive('u', '${undated}1006'); SET LOCAL outbox.allow_loss = on; DROP EXTENSION outbox CASCADE; COMMIT; SELECT to_regclass('outbox_internal.inbox_kept') IS NULL"), "t\nt", 'nothing is to be done where the extension is dropped');
sql('CREATE EXTENSION outbox');
sql(q{DROP VIEW IF EXISTS kept; CREATE VIEW kept AS SELECT (date_trunc('day', now(), 'UTC') AT TIME ZONE 'UTC')::date - kept_from AS days FROM outbox_internal.inbox_kept;
	SELECT outbox.receive('c', id(0, 290)), outbox.receive_next('x', 's', 1)});

# --- whoever's clock jumps ahead drops nothing: the producer's alone, ours alone
sql(q{SELECT outbox.receive('c', id(2, 300))});
my $kept = sql('SELECT kept_from FROM outbox_internal.inbox_kept');
like(refused(q{SELECT outbox.receive('c', id(-300, 1))}), qr/too far ahead/, 'an id of next year is refused');
is(sql(q{SELECT outbox.receive('c', id(-20, 1)), outbox.receive('c', id(-20, 1))}), 't|f', 'one of three weeks ahead is taken once');
is(sql('SELECT kept_from FROM outbox_internal.inbox_kept'), $kept, 'and no day went for it');

# (id() is of the server's own day.)
my $real = sql('SELECT id(0, 301)');
my $earlier = sql('SELECT id(2, 300)');
Outbox::Clock::set(10 * 86400);
is(sql("SELECT outbox.receive('c', '$real'), outbox.receive('c', '$real'), outbox.receive('c', '$earlier')"), 't|f|f', 'our clock ten days ahead: events are taken once all the same');
is(sql('SELECT kept_from FROM outbox_internal.inbox_kept'), $kept, 'and no day went for it');
# Ids without a time say nothing of the producer's clock.
foreach my $days (10, 20, 30)
{
	Outbox::Clock::set($days * 86400);
	is(sql(q{SELECT outbox.receive('u', gen_random_uuid())}), 't', "another, $days days ahead");
}
is(sql('SELECT kept_from FROM outbox_internal.inbox_kept'), $kept, 'no day goes for those');
Outbox::Clock::set(-10 * 86400);
is(sql("SELECT outbox.receive('c', '$real'), outbox.receive('c', '$earlier')"), 'f|f', 'ten days behind');
Outbox::Clock::set(0);
is(sql("SELECT outbox.receive('c', '$real'), outbox.receive('c', '$earlier'), outbox.receive('c', id(0, 302))"), 'f|f|t', 'and put right');

# --- midnight: two ids a millisecond apart are remembered in two tables, from either side
is(sql(q{SELECT count(*) FILTER (WHERE outbox.receive('m', i)) FROM (SELECT id(1) UNION ALL SELECT
	(lpad(to_hex((extract(epoch FROM date_trunc('day', now(), 'UTC')) * 1000)::bigint - n), 12, '0') || '70008000000000000001')::uuid FROM generate_series(0, 1) n) x (i)}), 3, 'before and after midnight');
foreach my $zone ('Pacific/Kiritimati', 'America/New_York', 'UTC')
{
	is(sql("SET timezone = '$zone'; SELECT outbox.receive('m', id(1))"), 'f', "the same in $zone");
}

# --- a year of silence, then an event of today: it is taken, and nothing older
sql('UPDATE outbox_internal.inbox_kept SET kept_from = kept_from - 365');
is(sql(q{SELECT outbox.receive('c', id(0, 400)), outbox.receive('c', id(0, 400))}), 't|f', 'after a year of silence');
is(sql('SELECT days FROM kept'), 3, 'the ring goes on');
# Two at once after it, of which the first lies idle: the second waits for nobody and is refused nothing.
sql('UPDATE outbox_internal.inbox_kept SET kept_from = kept_from - 60');
sql("SET outbox.allow_loss = on; INSERT INTO outbox_internal.$_ VALUES ('00000000-0000-7000-8000-000000000000', 'old')") foreach map { sprintf 'inbox_day_%02d', $_ } 0 .. 31;
$idle->query_safe(q{BEGIN; SELECT outbox.receive('c', id(0, 410))});
is(sql(q{SET lock_timeout = '1ms'; SELECT outbox.receive('c', id(0, 411)), outbox.receive('c', id(1, 411))}), 't|t', 'two consumers begin after weeks of silence');
$idle->query_safe('COMMIT');
is(sql(q{SELECT outbox.receive('c', id(0, 410)), outbox.receive('c', id(0, 411)), outbox.receive('c', id(1, 411))}), 'f|f|f', 'and all that they marked is known');
like(refused(q{SELECT outbox.receive('c', id(-300, 1))}), qr/too far ahead/, 'while an id of next year is refused');
is(sql('SELECT days FROM kept'), 3, 'the ring goes on again');
is(sql(q{SELECT sum(rows) FROM outbox.received WHERE consumer = 'old'}), 4, 'and the tables are empty but those with marks of today, of two days before, and of three weeks ahead');
# A transaction that is prepared moves no row: its mark is in the table of a day a month before, which has its turn next.
days_go_by(29);
sql(q{BEGIN; SELECT outbox.receive('c', id(0, 412)); PREPARE TRANSACTION 'p'});
is(sql(q{SET lock_timeout = '1ms'; SELECT outbox.receive('d', id(10, 412))}), 't', 'prepared after weeks of silence: others wait for nobody');
sql(q{COMMIT PREPARED 'p'});
days_go_by(sql('SELECT 32 - days FROM kept'));
is(sql(q{SELECT outbox.receive('d', id(10, 413))}) . sql('SELECT days < 32 FROM kept'), 'tt', 'the day of a month before goes');
is(sql(q{SELECT outbox.receive('c', id(0, 412)), outbox.receive('d', id(10, 412)), outbox.receive('d', id(10, 413))}), 'f|f|f', "and today's mark stays") foreach 1, 2;

# --- 65 consumers at once
is(sql(q{SELECT count(*) FILTER (WHERE outbox.receive('consumer ' || c, id(0, 500 + n))) FROM generate_series(1, 65) c, generate_series(1, 20) n}), 65 * 20, '65 consumers, 20 events');
is(sql(q{SELECT count(*) FILTER (WHERE outbox.receive('consumer ' || c, id(0, 500 + n))) FROM generate_series(1, 65) c, generate_series(1, 20) n}), 0, 'and again');
is(sql(q{SELECT count(DISTINCT consumer), sum(rows) FROM outbox.received WHERE consumer LIKE 'consumer %'}), '65|1300', 'and are seen');

# --- marks are in a dump: all, or the extension's alone; what was handled is not handled again
sql(q{SELECT outbox.receive('c', 'orders', '42', 1700000000000002), outbox.receive_next('c', 'orders/0', 7)});
sql('CREATE ROLE app; SELECT outbox.grant_receive($$app$$, $${billing}$$)');
my $dump = $node->data_dir . '/../dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('restored'), $dump ], 'pg_restore');
my $rows = 'SELECT consumer, what, day, rows FROM outbox.received ORDER BY 1, 2, 3';
my $was = sql($rows);
my $kept_from = sql('SELECT kept_from FROM outbox_internal.inbox_kept');
$database = 'restored';
is(sql($rows), $was, 'the restored inbox has what the first one has');
is(sql('SELECT kept_from FROM outbox_internal.inbox_kept'), $kept_from, 'from the same day on');
sql(q{ALTER DATABASE restored SET outbox.inbox_retention = '3d'});
is(sql(q{SELECT outbox.receive('c', id(0, 400)), outbox.receive('c', 'orders', '42', 1700000000000002), outbox.receive_next('c', 'orders/0', 7), outbox.receive('consumer 65', id(0, 501))}),
	'f|f|repeat|f', 'and handles nothing twice');
like(refused(q{SET ROLE app; SELECT outbox.receive('search', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')}), qr/may not receive as consumer/, 'who may receive as whom is in it, too');
$database = 'postgres';
like(refused('LOAD $$outbox$$; DROP EXTENSION outbox CASCADE'), qr/cannot drop extension outbox because consumers receive here/, 'DROP EXTENSION is refused while marks are kept');
sql('SET outbox.allow_loss = on; DROP EXTENSION outbox CASCADE');
is(sql('SELECT count(*) FROM pg_class WHERE relname ~ $$^inbox_$$'), 0, 'DROP EXTENSION leaves nothing');

done_testing();
