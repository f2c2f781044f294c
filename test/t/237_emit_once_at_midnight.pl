# A dedupe_key across midnight (UTC), by the clock of a server that comes to it: keys taken in the last moments of a day and in the
# first of the next, by two sessions at once, are one event each, also while the first is still open on the other side. A day's keys
# count until the retention is over to the second, then all of the day go at once, and those of the moment after midnight stay. A clock
# that is wrong, ahead or back, frees none.
# matrix: B19
# ring: long
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use POSIX qw(floor strftime);
use Test::More;
use Time::HiRes qw(sleep time);

my $day = 86_400;
my $midnight = (floor(time / $day) + 1) * $day;
# The wall clock of outbox, so that it is then. Believed at once.
sub set_clock { my ($then) = @_; Outbox::Faults::shift_clock(int(($then - time) * 1_000_000)); return }
sub table_of { my ($at) = @_; return 'outbox_internal.emit_key_' . strftime('%Y%m%d', gmtime $at) }

set_clock($midnight - 60);
my $node = new_node(conf => "outbox.workers = 0\nautovacuum = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub there { my ($at) = @_; return sql("SELECT to_regclass('" . table_of($at) . "') IS NOT NULL") eq 't' }
sub upkeep { sql('SELECT pg_reload_conf()'); return }
sub emit { my ($key) = @_; return sql("SELECT outbox.emit('order', 1, 'e', '1', dedupe_key => '$key')") }
sql(q{
	CREATE TABLE got (who text, key int, id uuid, at timestamptz);
	CREATE PROCEDURE emit_keys(who text, keys int) LANGUAGE plpgsql AS $$
	DECLARE event uuid;
	BEGIN
	  FOR k IN 1 .. keys LOOP
	    event := outbox.emit('order', 1, 'e', to_jsonb(k), dedupe_key => 'k' || k);
	    INSERT INTO got SELECT who, k, event, l.created_at FROM outbox_internal.whole_log l WHERE l.id = event;
	    IF k % 5 = 0 AND who = 'one' THEN ROLLBACK; ELSE COMMIT; END IF;
	    PERFORM pg_sleep(0.005);
	  END LOOP;
	END $$});
emit('warm');
ok(wait_until(sub { upkeep(); return there($midnight - 1) && there($midnight) }, 50), 'there are tables of both days');

# --- two sessions, the same keys, through midnight; one key is open meanwhile, one is prepared ---
set_clock($midnight - 2);
sub now { return sql(q{SELECT outbox.emit('now', 1, 'n', '1'); SELECT extract(epoch FROM max(created_at)) FROM outbox_internal.whole_log WHERE aggregate_type = 'now'}) =~ s/.*\n//sr }
cmp_ok(now(), '<', $midnight, 'it is before midnight');
my $open = $node->background_psql('postgres');
$open->query_safe('BEGIN');
my $opened = $open->query_safe("SELECT outbox.emit('order', 1, 'e', '1', dedupe_key => 'open')");
my $prepared = sql(q(BEGIN; SELECT outbox.emit('order', 1, 'e', '1', dedupe_key => 'prepared'); PREPARE TRANSACTION 'p'));
my @sessions = map {
	IPC::Run::start([ $node->installed_command('psql'), '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-c', "CALL emit_keys('$_', 700)" ],
		'<', \undef, '>', \my $out, '2>', \my $err)
} 'one', 'two';
ok(wait_until(sub { now() > $midnight }), 'it is after');
my %waiting = map { $_ => $node->background_psql('postgres', on_error_stop => 0) } 'open', 'prepared';
$waiting{$_}->query_until(qr/begun/, "\\echo begun\nSELECT outbox.emit('order', 1, 'e', '1', dedupe_key => '$_');\n\\echo ended\n") foreach sort keys %waiting;
ok(wait_for_value($node, q(SELECT count(*) >= 2 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted), 't'), 'keys of before midnight that are open are waited for after it');
$open->query_safe('COMMIT');
sql(q(COMMIT PREPARED 'p'));
like($waiting{open}->query_until(qr/ended/, ''), qr/\Q$opened\E/, 'and are found');
like($waiting{prepared}->query_until(qr/ended/, ''), qr/\Q$prepared\E/, 'also when they were prepared');
$_->quit foreach $open, values %waiting;
ok($_->finish, 'a session has ended well') foreach @sessions;
is(sql(q{SELECT count(*) - count(DISTINCT payload) FROM outbox_internal.whole_log WHERE event_type = 'e' AND payload <> '1'}), 0, 'each key has one event');
is(sql('SELECT count(*) FROM (SELECT key FROM got GROUP BY key HAVING count(DISTINCT id) > 1) k'), 0, 'and both sessions were told the same id');
is(sql('SELECT count(DISTINCT key) FROM got'), 700, 'of all of them');
my ($before, $after) = split /\|/, sql("SELECT count(DISTINCT key) FILTER (WHERE at < to_timestamp($midnight)), count(DISTINCT key) FILTER (WHERE at >= to_timestamp($midnight)) FROM got");
cmp_ok($before, '>', 20, "$before keys were taken before midnight");
cmp_ok($after, '>', 20, "$after after it");
my ($last, $last_id, $ahead) = split /\|/, sql("SELECT key, id, to_timestamp($midnight) - at < interval '0.5 s' FROM got WHERE at < to_timestamp($midnight) ORDER BY at DESC LIMIT 1");
my ($first, $first_id, $behind) = split /\|/, sql("SELECT key, id, at - to_timestamp($midnight) < interval '0.5 s' FROM got WHERE at >= to_timestamp($midnight) ORDER BY at LIMIT 1");
is("$ahead $behind", 't t', 'the nearest to it on either side are as near as the machine is quick');
is(sql("SELECT tableoid::regclass FROM outbox_internal.emit_key WHERE id = '$last_id'"), table_of($midnight - 1), 'one is in the table of the day that ended');
is(sql("SELECT tableoid::regclass FROM outbox_internal.emit_key WHERE id = '$first_id'"), table_of($midnight), 'one in that of the day that began');
is(emit("k$last"), $last_id, 'the last key of the day counts on the next');
is(emit("k$first"), $first_id, 'so does the first of that');

# --- the clock goes back behind midnight: time stands, and keys are kept where they are ---
set_clock($midnight - 3600);
is(emit("k$_->[0]"), $_->[1], "an hour back, $_->[2] counts") foreach [ $last, $last_id, 'the one' ], [ $first, $first_id, 'the other' ];
my $back = emit('back');
is(sql("SELECT tableoid::regclass FROM outbox_internal.emit_key WHERE id = '$back'"), table_of($midnight), 'what is new belongs to the day that had begun');
is(emit('back'), $back, 'and counts');

# --- it is a month ahead, and that is not believed ---
set_clock($midnight + 10);
now();
Outbox::Faults::shift_clock(int(($midnight + 30 * $day - time) * 1_000_000), held => 1);
upkeep();
ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox keeper' AND state = 'idle'), 1), 'the keeper has looked');
ok(there($midnight - 1), 'a clock that is wrong by a month drops nothing');
is(emit("k$last"), $last_id, 'and frees no key');

# --- to the second: the retention of the day that ended at midnight is over seven days after that ---
my $over = $midnight + 7 * $day;
set_clock($over - 20);
now();
upkeep();
ok(wait_until(sub { there($over) }), 'the keeper has made the table of the day to come');
ok(there($midnight - 1), 'seconds before the seven days are over');
is(emit("k$last"), $last_id, 'its last key counts');
set_clock($over + 1);
cmp_ok(now(), '>', $over, 'they are over');
ok(wait_until(sub { upkeep(); return !there($midnight - 1) }), 'the day is dropped');
my $again = emit("k$last");
isnt($again, $last_id, 'its last key is free');
is(emit("k$last"), $again, 'once');
ok(there($midnight), 'the next day is not');
is(emit("k$first"), $first_id, 'and its first key counts');
is(emit('open') eq $opened, '', 'a key goes with the day on which it was taken, not with that of the commit');
no_server_crashed($node);
done_testing();
