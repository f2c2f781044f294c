# outbox.forget() of a key with very many parked events: to count them for a dry run, and to give them up, takes as long as there are
# of them; and an event is found by its id without reading what else its route has parked.
# matrix: G9
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
sub sql { return $node->safe_psql('postgres', @_) }
sql(q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', 'n')));
sub park
{
	my ($key, $count) = @_;
	sql("SELECT outbox.pause(route => 'all', aggregate_type => 'k', aggregate_id => '$key', reason => 'test')");
	sql("SELECT count(outbox.emit('k', '$key', 'e', '{}'::jsonb)) FROM generate_series(1, $count) i");
	return wait_for_value($node, "SELECT count(*) FROM outbox_internal.parked WHERE aggregate_id = '$key'", $count, 180) ? $count : 0;
}
# Pages of the primary key that a statement looks at, whoever else works: a statement of no consequence tells that before.
sub pages
{
	my ($statement) = @_;
	my $counted = q(SELECT idx_blks_hit + idx_blks_read FROM pg_statio_all_indexes WHERE indexrelid = 'outbox_internal.parked_pkey'::regclass);
	my $before = value_at_rest($node, $counted);
	sql($statement);
	return value_at_rest($node, $counted) - $before;
}

is(park('many', 12_000), 12_000, 'very many events of a key are parked');
is(park('few', 600), 600, 'and some of another one');

my $counting = backend_seconds($node, q(CALL outbox.forget('k', 'many', reason => 'test')));
cmp_ok($counting, '<', 1, "a dry run counts them in less than a second of the processor: $counting");
my ($code, $out, $told) = $node->psql('postgres', q(CALL outbox.forget('k', 'many', reason => 'test')));
like($told, qr/dry run: would erase 0 events of the log, and keep 12000 that are undelivered/, 'each of them once');
# It is kept in the log and parked, and there once more as a copy of a replay.
sql(q(INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, replay, aggregate_type, aggregate_id, event_type, topic)
	SELECT route_id, lane, created_at, id, 7, aggregate_type, aggregate_id, event_type, topic FROM outbox_internal.parked WHERE aggregate_id = 'few' LIMIT 5));
($code, $out, $told) = $node->psql('postgres', q(CALL outbox.forget('k', 'few', reason => 'test')));
like($told, qr/and keep 605 that are undelivered/, 'and copies of a replay besides');

# What workers have counted is told when they end, if not before.
$node->restart;
my $id = sql(q(SELECT id FROM outbox_internal.parked WHERE aggregate_id = 'many' ORDER BY created_at LIMIT 1 OFFSET 6000));
my $one = pages("SELECT outbox.skip('$id', reason => 'test')");
cmp_ok($one, '<', 60, "to give one up reads few pages of the index by route: $one");
my $pages = pages(q(CALL outbox.forget('k', 'few', undelivered => true, dry_run => false, reason => 'test')));
cmp_ok($pages, '<', 12 * 605, "to give up the few does not read the many: $pages");
is(sql(q(SELECT count(*) FROM outbox_internal.parked WHERE aggregate_id = 'few')), '0', 'they are gone');
is(sql(q(SELECT count(*) FROM outbox_internal.outcome WHERE outcome = 'skipped')), '606', 'each has its outcome');
is(sql(q(SELECT detail->>'given_up' FROM outbox.audit WHERE action = 'forget' AND detail ? 'given_up')), '605', 'and all are counted');
is(sql(q(SELECT count(*) FROM outbox_internal.parked WHERE aggregate_id = 'many')), '11999', 'the others wait');
$node->stop;
done_testing();
