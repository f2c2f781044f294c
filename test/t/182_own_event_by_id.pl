# A transaction that asks for each event by its id before and after it inserts it, as ORMs merge, costs the same for each,
# however many it has emitted. What was rolled back is not found, though there was a vacuum and another row is in its
# place; nor does it matter which table the events are in, or that there are more than anybody remembers.
# matrix: R44
use strict;
use warnings;

use List::Util qw(min);
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

# The launcher has the only process there is: no keeper, so the first events go to the spare table.
my $node = new_node(conf => "max_worker_processes = 1\nmax_logical_replication_workers = 0\nautovacuum = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

sql(q{CREATE FUNCTION id(n int) RETURNS uuid LANGUAGE sql IMMUTABLE RETURN lpad(n::text, 32, '0')::uuid;
	CREATE PROCEDURE merge(events int) LANGUAGE plpgsql AS $$
	DECLARE
	  own outbox.event;
	BEGIN
	  FOR n IN 1 .. events LOOP
	    SELECT e.* INTO own FROM outbox.event e WHERE e.id = id(n);
	    IF FOUND THEN RAISE EXCEPTION 'found % before it was there', n; END IF;
	    INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload)
	      VALUES (id(n), 'order', n::text, 'created', jsonb_build_object('n', n, 'fill', repeat('x', 300)));
	    SELECT e.* INTO own FROM outbox.event e WHERE e.id = id(n);
	    IF own.payload->>'n' IS DISTINCT FROM n::text THEN RAISE EXCEPTION 'did not find %', n; END IF;
	  END LOOP;
	END $$});

# Seconds of CPU that the session has used; others use the machine as well.
sub cpu { return eval { my @field = split ' ', slurp_file("/proc/$_[0]/stat"); ($field[13] + $field[14]) / 100 } }

# Three times of each, in turn: the cheapest counts.
sub cost_is_even
{
	my ($where) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 1, timeout => 300);
	my ($pid) = $session->query_safe('BEGIN; CALL merge(10); ROLLBACK; SELECT pg_backend_pid()') =~ /(\d+)/;
	my (%took, @cost);
	my @sizes = (2000, 8000);
	foreach my $size ((@sizes) x 3)
	{
		my $before = cpu($pid);
		$session->query_safe("BEGIN; CALL merge($size); ROLLBACK");
		push @{ $took{$size} }, cpu($pid) - $before;
	}
	$session->quit;
	@cost = map { min(@{ $took{$_} }) } @sizes;
	note(sprintf '%s: %d events %.2f s, %d events %.2f s', $where, $sizes[0], $cost[0], $sizes[1], $cost[1]);
	cmp_ok($cost[1], '<', 6 * $cost[0] + 0.05, "four times as many cost four times as much: $where");
	return;
}

is(sql(q{SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox_internal.log'::regclass}), 0, 'there is no day table');
cost_is_even('in the spare table');
is(sql(q{BEGIN; CALL merge(20); SELECT count(*) FROM outbox_internal.log_spare WHERE xid = pg_current_xact_id(); ROLLBACK}), 20, 'that is where they are');

# Some in one table, some in the other: today's has another name for a while.
$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
$node->restart;
my $today = sql(q{SELECT outbox.emit('a', 1, 'e', '1'); SELECT max(tableoid::regclass::text) FROM outbox_internal.log}) =~ s/.*outbox_internal\.//sr;
sql("SET outbox.allow_loss = on; ALTER TABLE outbox_internal.$today RENAME TO away");
my $both = $node->background_psql('postgres', on_error_stop => 1);
$both->query_safe(q{BEGIN; CALL merge(3)});
sql("SET outbox.allow_loss = on; ALTER TABLE outbox_internal.away RENAME TO $today");
like($both->query_safe(q{INSERT INTO outbox.event (id, aggregate_type, event_type, payload) VALUES (id(2), 'again', 'created', '1'), (id(4), 'order', 'created', '1');
	SELECT count(*), count(DISTINCT id) FROM outbox.event WHERE id IN (id(1), id(2), id(3), id(4), id(5))}), qr/^5\|4$/m, 'events of two tables are found');
like($both->query_safe("SELECT (SELECT count(*) FROM outbox_internal.log_spare WHERE xid = pg_current_xact_id()), (SELECT count(*) FROM outbox_internal.$today WHERE xid = pg_current_xact_id())"), qr/^3\|2$/m, 'three and two');
$both->query_safe('ROLLBACK');
$both->quit;
cost_is_even('in the table of the day');

# Rolled back, vacuumed by another session, and another one with the same id in its place.
my $session = $node->background_psql('postgres', on_error_stop => 1);
$session->query_safe(q{BEGIN; SELECT outbox.emit('a', 'stays', 'e', '1'); SELECT FROM outbox.event WHERE id = id(1); SAVEPOINT s;
	INSERT INTO outbox.event (id, aggregate_type, event_type, payload) SELECT id(1 + n % 2), 'gone', 'e', '1' FROM generate_series(1, 500) n});
like($session->query_safe('SELECT count(*) FROM outbox.event WHERE id = id(1)'), qr/^250$/m, 'the same id, 250 times');
$session->query_safe('ROLLBACK TO s');
sql(q{SELECT format('VACUUM (INDEX_CLEANUP on) %s', inhrelid::regclass) FROM pg_inherits WHERE inhparent = 'outbox_internal.log'::regclass AND pg_relation_size(inhrelid) > 0 \gexec});
$session->query_safe(q{INSERT INTO outbox.event (id, aggregate_type, event_type, payload) SELECT id(1), 'anew', 'e', '1' FROM generate_series(1, 300)});
like($session->query_safe(q{SELECT count(*), min(aggregate_type), count(DISTINCT created_at) FROM outbox.event WHERE id = id(1)}), qr/^300\|anew\|300$/m, 'what came into the places of others is there, once');
like($session->query_safe(q{SELECT count(*) FROM outbox.event WHERE id = id(2)}), qr/^0$/m, 'and those are gone');
like($session->query_safe(q{SELECT count(*) FROM outbox.event}), qr/^301$/m, 'all of them, counted');
$session->query_safe('COMMIT');
like($session->query_safe('SELECT count(*) FROM outbox.event WHERE id = id(1)'), qr/^0$/m, 'a committed event is not among a session\'s own');
$session->quit;

# More than are remembered: read through, without making anything of those that are not asked for.
like(sql(q{BEGIN;
	DO $$ BEGIN
	  FOR i IN 1 .. 210 LOOP
	    PERFORM outbox.emit_many('many', array_agg(n::text), 'e', array_agg(to_jsonb(n))) FROM generate_series(1000 * (i - 1) + 1, 1000 * i) n;
	  END LOOP;
	END $$;
	SELECT 'found ' || aggregate_id FROM outbox.event WHERE id = (SELECT id FROM outbox.event WHERE aggregate_id = '777');
	INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload) VALUES (id(9), 'one', 'more', 'e', '1');
	SELECT 'found ' || aggregate_id FROM outbox.event WHERE id = id(9);
	SELECT 'none' WHERE NOT EXISTS (SELECT FROM outbox.event WHERE id IN (id(8), NULL));
	SELECT 'none' WHERE NOT EXISTS (SELECT FROM outbox.event WHERE id = NULL);
	ROLLBACK}), qr/^found 777\nfound more\nnone\nnone$/m, 'each of very many is found');
no_server_crashed($node);
done_testing();
