# Many calls of receive() of the newest value, and of receive_next(), for one row cost as much each as the first, in one transaction and while a
# snapshot is held: the pages that they read are counted. What a session remembers of where a row is, it believes only if the row is there: after
# rollbacks, other sessions' updates, a VACUUM that gives the place to another row, and an extension that is made anew.
# matrix: R95
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 0\nautovacuum = off\nshared_buffers = 64MB\n");
sub sql { return $node->safe_psql('postgres', @_) }
my $say = 'SET client_min_messages = error;';
sql(q{
	CREATE FUNCTION pages(call text, OUT pages numeric) LANGUAGE plpgsql AS $$
	DECLARE plan json;
	BEGIN
	  EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || call INTO plan;
	  pages := (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::numeric + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::numeric;
	END $$;
	-- Each call a transaction of its own; the session's own counters.
	CREATE PROCEDURE each(call text, first integer, last integer) LANGUAGE plpgsql AS $$
	BEGIN
	  FOR g IN first .. last LOOP
	    EXECUTE format(call, g); COMMIT;
	  END LOOP;
	END $$});

# --- in one transaction
my %calls = (next => q{outbox.receive_next('c', '%s', g) = 'next'}, gaps => q{outbox.receive_next('c', '%s', g * 2, true) = 'next'}, newest => q{outbox.receive('c', 't', '%s', 1700000000000000 + g)});
foreach my $kind (sort keys %calls)
{
	my %each;
	foreach my $calls (1000, 16_000)
	{
		my $call = sprintf $calls{$kind}, "$kind/$calls";
		$each{$calls} = sql("SELECT pages('SELECT count(*) FROM generate_series(1, $calls) g WHERE ' || \$q\$$call\$q\$) / $calls");
	}
	note "$kind: pages by call: $each{1000} of 1000, $each{16000} of 16000";
	cmp_ok($each{16_000}, '<', 2 * $each{1000}, "$kind: 16000 calls in one transaction cost as much each as 1000");
}
is(sql(q{SELECT string_agg(s.reached::text, ' ' ORDER BY s.stream) FROM outbox_internal.inbox_stream s}), '2000 32000 1000 16000', 'all were marked');
is(sql(q{SELECT string_agg(k.created_at::text, ' ' ORDER BY k.key) FROM outbox_internal.inbox_key k}), '1700000000001000 1700000000016000', 'of both kinds');

# --- in transactions of their own, while somebody holds a snapshot
my $holder = $node->background_psql('postgres');
my %cost;
foreach my $held (0, 1)
{
	$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1') if $held;
	foreach my $kind (sort keys %calls)
	{
		my $call = sprintf $calls{$kind}, "held$held";
		$call =~ s/'c'/'$kind'/;
		(my $each = "SELECT $call") =~ s/\bg\b/%s/;
		$each =~ s/'/''/g;
		# What the last 500 of 6000 cost, in a session that has done them all.
		$cost{$kind}[$held] = sql("SET synchronous_commit = off; CALL each('$each', 1, 5500);
			SELECT pages(\$q\$SELECT count(*) FROM generate_series(5501, 6000) g WHERE $call\$q\$) / 500");
	}
}
foreach my $kind (sort keys %calls)
{
	note "$kind: pages by call $cost{$kind}[0] with none held, $cost{$kind}[1] with one";
	cmp_ok($cost{$kind}[1], '<', 3 * $cost{$kind}[0], "$kind: beside a held snapshot, too");
}
is(sql(q{SELECT string_agg(DISTINCT s.reached::text, ' ') FROM outbox_internal.inbox_stream s WHERE s.stream LIKE 'held%' AND s.consumer = 'next'}), '6000', 'each was marked');
cmp_ok(sql(q{SELECT pg_relation_size('outbox_internal.inbox_stream') / 8192}), '>', 50, '(there are versions that nobody could remove)');

# Where none is held, versions make room for the next, as ever: the table does not grow.
$holder->query_safe('COMMIT');
sql('VACUUM FULL outbox_internal.inbox_stream, outbox_internal.inbox_key');
sql(q{SET synchronous_commit = off; CALL each('SELECT outbox.receive_next(''room'', ''s'', %s)', 1, 4000); CALL each('SELECT outbox.receive(''room'', ''t'', ''k'', 1700000000000000 + %s)', 1, 4000)});
cmp_ok(sql(q{SELECT greatest(pg_relation_size('outbox_internal.inbox_stream'), pg_relation_size('outbox_internal.inbox_key')) / 8192}), '<', 12, 'with none held the table does not grow');

# --- a place is believed only if the row is there
# A session that remembers: it has come through many pages.
my $one = $node->background_psql('postgres', on_error_stop => 0);
sub crowd { my ($stream) = @_; $one->query_safe("SELECT count(*) FROM generate_series(1, 4000) g WHERE outbox.receive_next('p', '$stream', g) = 'next' AND outbox.receive('p', 't', '$stream', 1700000000000000 + g)"); return }
sub next_is { my ($stream, $at) = @_; return $one->query_safe("SELECT outbox.receive_next('p', '$stream', $at), outbox.receive('p', 't', '$stream', 1700000000000000 + $at)") }

$one->query_safe('BEGIN');
crowd('s');
$one->query_safe('SAVEPOINT a');
is(next_is('s', 4001), 'next|t', 'in a savepoint');
is(next_is('s', 4002), 'next|t', 'and again');
$one->query_safe('ROLLBACK TO a');
is(next_is('s', 4002), 'gap|t', 'which is rolled back: its version does not count');
is($one->query_safe(q{SELECT outbox.receive_next('p', 's', 4001)}), 'next', 'but the one before');
is(next_is('s', 4001), 'repeat|f', 'once');
$one->query_safe('COMMIT');

# Rolled back as a whole.
$one->query_safe('BEGIN');
crowd('gone');
$one->query_safe('ROLLBACK');
is(next_is('gone', 77), 'next|t', 'rows that are not there any more are made anew');

# Somebody else updates; deletes.
is(sql(q{SELECT outbox.receive_next('p', 's', 4002), outbox.receive('p', 't', 's', 1700000000009000)}), 'next|t', 'another session goes on');
is(next_is('s', 4003), 'next|f', 'what it has written counts');
sql(q{SELECT outbox.seek_stream('p', 's', 10)});
is(next_is('s', 4004), 'gap|f', 'and where it has moved the stream');
$one->query_safe(q{BEGIN});
is($one->query_safe(q{SELECT outbox.receive_next('p', 's', 10)}), 'next', 'from there');
crowd('x');
my $two = $node->background_psql('postgres', on_error_stop => 0);
is($one->query_safe('COMMIT; SELECT 1'), '1', '(committed)');

# Two at once: the second waits, and sees what the first has written.
$two->query_safe(q{BEGIN; SELECT outbox.receive_next('p', 'x', 4001), outbox.receive('p', 't', 'x', 1700000000004001)});
$one->query_until(qr/begun/, "\\echo begun\nSELECT outbox.receive_next('p', 'x', 4001), outbox.receive('p', 't', 'x', 1700000000004001);\n");
ok(wait_for_value($node, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%receive_next%' AND pid <> pg_backend_pid()}, 1), 'the second waits');
$two->query_safe('COMMIT');
is($one->query_safe('SELECT 1') =~ s/\n?1\z//r, 'repeat|f', 'and then it is a repeat');
$two->query_safe(q{BEGIN; SELECT outbox.receive_next('p', 'x', 4002)});
$one->query_until(qr/begun/, "\\echo begun\nSELECT outbox.receive_next('p', 'x', 4002);\n");
ok(wait_for_value($node, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%receive_next%' AND pid <> pg_backend_pid()}, 1), 'it waits again');
$two->query_safe('ROLLBACK');
is($one->query_safe('SELECT 1') =~ s/\n?1\z//r, 'next', 'and where the first is rolled back it is the next');
$two->quit;

# REPEATABLE READ: as by the index.
crowd('rr');
$one->query_safe(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1});
sql(q{SELECT outbox.receive_next('p', 'rr', 4001)});
is($one->query(q{SELECT outbox.receive_next('p', 'rr', 4001)}), '', 'an update of another since then has no answer');
like($one->{stderr}, qr/could not serialize access due to concurrent update/, 'but an error');
$one->{stderr} = '';
$one->query_safe('ROLLBACK');

# VACUUM gives the places to other rows.
crowd('v');
sql(q{SELECT outbox.forget_consumer('p'); SELECT outbox.receive_next('q', g::text, 4000) FROM generate_series(1, 3000) g; SELECT outbox.receive('q', 't', g::text, 1700000000000001) FROM generate_series(1, 3000) g});
sql('VACUUM outbox_internal.inbox_stream, outbox_internal.inbox_key');
sql(q{SELECT outbox.receive_next('q', 'r' || g::text, 4000) FROM generate_series(1, 9000) g; SELECT outbox.receive('q', 't', 'r' || g::text, 1700000000000001) FROM generate_series(1, 9000) g});
is(next_is('v', 4001), 'next|t', 'rows that others have the place of are made anew');
is(sql(q{SELECT count(*) FILTER (WHERE reached <> 4000) || ' ' || (SELECT count(*) FROM outbox_internal.inbox_key WHERE created_at <> 1700000000000001 AND consumer = 'q') FROM outbox_internal.inbox_stream WHERE consumer = 'q'}), '0 0', 'and those are as they were');

# The extension is made anew.
crowd('e');
sql("$say SET outbox.allow_loss = on; DROP EXTENSION outbox; CREATE EXTENSION outbox");
is(next_is('e', 5), 'next|t', 'an extension that was made anew knows of nothing');
is(next_is('e', 6), 'next|t', 'and goes on');
$one->quit;
$holder->quit;
done_testing();
