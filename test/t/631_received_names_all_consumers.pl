# outbox.received has each consumer, also where its table is so large that it is not counted to the end: those with few marks are counted
# exactly beside one that has hundreds of thousands.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

# (Nothing is analyzed: no plan may hang on that.)
my $node = new_node(conf => "autovacuum = off\n");
sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql) }
my $table = sql(q{SELECT 'inbox_day_' || lpad((((now() AT TIME ZONE 'UTC')::date - date '1970-01-01') % 32)::text, 2, '0')});
sql(q{CREATE FUNCTION id(n integer, days integer DEFAULT 0) RETURNS uuid LANGUAGE sql AS $$
	SELECT (lpad(to_hex((extract(epoch FROM date_trunc('day', now(), 'UTC') + interval '12 hours' - days * interval '1 day') * 1000)::bigint), 12, '0') || '70008' || lpad(n::text, 15, '0'))::uuid $$;
	SELECT outbox.receive('before', id(1)), outbox.receive('u', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), outbox.receive('u', 's', 'k', 1763800000000000), outbox.receive_next('u', 't', 1)});
# (Long names make large tables of fewer rows.)
my $large = "'large' || repeat('-', 90)";
sql(qq{SET outbox.allow_loss = on; SET client_min_messages = error;
	INSERT INTO outbox_internal.$table SELECT (left(id(0)::text, 13) || '-7000-8000-' || lpad(n::text, 12, '0'))::uuid, $large FROM generate_series(1000000, 1270000) n;
	INSERT INTO outbox_internal.inbox_undated_a SELECT (lpad(to_hex(n), 8, '0') || '-0000-4000-8000-000000000000')::uuid, $large FROM generate_series(1, 270000) n;
	INSERT INTO outbox_internal.inbox_key SELECT $large, repeat('s', 190), n::text, 1 FROM generate_series(1, 130000) n;
	INSERT INTO outbox_internal.inbox_stream SELECT $large, repeat('t', 300) || n, 1 FROM generate_series(1, 100000) n});
sql(q{SELECT outbox.receive('search', id(n)) FROM generate_series(1, 3) n;
	SELECT outbox.receive('v', ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380b' || n)::uuid), outbox.receive('v', 's', n::text, 1763800000000000), outbox.receive_next('v', n::text, 1) FROM generate_series(11, 13) n;
	SELECT outbox.receive('many small ' || c, id(n)) FROM generate_series(1, 50) c, generate_series(1, 4) n;
	SELECT outbox.receive('some', id(n)) FROM generate_series(1, 999) n});
foreach my $relation ($table, qw(inbox_undated_a inbox_key inbox_stream))
{
	cmp_ok(sql("SELECT pg_relation_size('outbox_internal.$relation') / 8192"), '>', 4096, "$relation is not counted to its end");
}
foreach my $look (1 .. 3)
{
	is(sql(q{SELECT string_agg(concat_ws(' ', consumer, what, rows), ', ' ORDER BY consumer, what) FROM outbox.received WHERE consumer !~ '^large' AND consumer !~ '^many' AND what !~ 'second'}),
		'before event 1, search event 3, some event 999, u key 1, u stream 1, u undated 1, v key 3, v stream 3, v undated 3', "look $look: each consumer is there, with its marks");
	is(sql(q{SELECT count(*), min(rows), max(rows) FROM outbox.received WHERE consumer ~ '^many'}), '50|4|4', "look $look: however many they are");
	is(sql(q{SELECT string_agg(what, ' ' ORDER BY what) FROM outbox.received WHERE consumer ~ '^large' AND rows BETWEEN 60000 AND 400000}), 'event key stream undated', "look $look: the large one by estimate");
}
is(sql(q{SELECT DISTINCT day = (now() AT TIME ZONE 'UTC')::date FROM outbox.received WHERE what = 'event'}), 't', 'with their day');
# Bytes are a table's, shared out by rows.
cmp_ok(sql(qq{SELECT abs(sum(bytes) - pg_total_relation_size('outbox_internal.$table')) FROM outbox.received WHERE what = 'event'}), '<', 1000, 'and their share of its bytes');
# Bounded: what is large is not gone through.
my $scans = qq{SELECT pg_stat_force_next_flush(); SELECT pg_stat_clear_snapshot(); SELECT sum(seq_scan) FROM pg_stat_all_tables
	WHERE relid IN ('outbox_internal.$table'::regclass, 'outbox_internal.inbox_undated_a'::regclass, 'outbox_internal.inbox_key'::regclass, 'outbox_internal.inbox_stream'::regclass)};
my ($before, $after) = sql("$scans; SELECT count(*) FROM outbox.received; $scans") =~ /^(\d+)\n\d+\n\n\n(\d+)$/m;
ok(defined $after && $before == $after, 'no such table is read from end to end') or diag(($before // '?') . ' ' . ($after // '?'));
no_server_crashed($node);
done_testing();
