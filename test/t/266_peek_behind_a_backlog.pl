# outbox.peek() behind a backlog reads about what it shows, however much waits: pages are counted, behind some events and behind twice
# as many. With paused keys, many lanes, a transaction that stays open, parked events, at the end of a day; what waits in one
# large transaction, or is one of ten thousand, is looked for as far as a bound, which is said.
# matrix: M10
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
sub sql { return $node->safe_psql('postgres', @_) }
sub ticks { return sql('SELECT count(*) FROM outbox_internal.tick') }

# Rounds of 1,000 events of a hundred keys, in a hundred transactions, and a snapshot of the keeper behind each.
sub more
{
	my ($type, $rounds) = @_;
	foreach (1 .. $rounds)
	{
		my $ticks = ticks();
		sql(qq(SET outbox.lone_emit = allow; DO \$\$ BEGIN FOR i IN 1 .. 100 LOOP
			PERFORM outbox.emit_text('$type', 'k' || 10 * (i % 10) + j, 'e', repeat('x', 300)) FROM generate_series(1, 10) j; COMMIT;
		END LOOP; END \$\$));
		wait_until(sub { ticks() > $ticks }, 30) or die 'no tick was recorded';
	}
	return;
}

# What a look says, how many pages of the log it read, and what it told.
sub peeked
{
	my ($route, $limit, $what) = @_;
	$what //= q(count(*) || '');
	my ($status, $stdout, $stderr) = $node->psql('postgres', "BEGIN; SELECT $what FROM outbox.peek('$route', $limit); SELECT sum(pg_stat_get_xact_blocks_fetched(oid)) FROM pg_class WHERE relname ~ '^log_[0-9s]' AND relkind IN ('r', 'i', 't'); COMMIT;");
	my ($answer, $pages) = split /\n/, $stdout;
	return ($answer, $pages, $stderr);
}

sql('CREATE SERVER held FOREIGN DATA WRAPPER outbox_null');
sql("SELECT outbox.create_route('$_->[0]', server => 'held', aggregate_types => '{$_->[1]}', lanes => $_->[2])") foreach [ 'one', 'a', 1 ], [ 'many', 'a', 16 ], [ 'rare', 'rare', 1 ];
ok(wait_idle($node), 'nothing waits');
sql(q(SELECT outbox.pause(server => 'held', reason => 'test')));
my $first = sql(q(SET outbox.lone_emit = allow; SELECT outbox.emit_text('a', 'k1', 'e', 'x')));

more('a', 5);
my ($id, $pages) = peeked('one', 1, 'id');
is($id, $first, 'the first is what goes next');
(my $ten, $pages, my $said) = peeked('one', 10);
is("$ten$said", '10', 'ten of those that wait; nothing is said where all that was asked for was found');
is(sql(q(SELECT bool_and(ordered) FROM (SELECT created_at > lag(created_at, 1, '-infinity') OVER (PARTITION BY aggregate_id ORDER BY n) AS ordered FROM outbox.peek('one', NULL) WITH ORDINALITY p (lane, created_at, id, aggregate_type, aggregate_id, event_type, payload, content_type, headers, topic, deliver_at, n)) x)), 't', 'each key in its order');
my ($all, $pages_of_all) = peeked('one', 'NULL');
is($all, 5001, 'all');
cmp_ok($pages, '<', 100, "ten take few pages ($pages of $pages_of_all)");
my (undef, $many_pages) = peeked('many', 1);
cmp_ok($many_pages, '<', 3 * $pages, "16 lanes read together ($many_pages)");
is((peeked('many', 'NULL'))[0], 5001, 'and have all of it');
is(sql(q(SELECT count(*) = 5001 AND count(DISTINCT (lane, aggregate_id)) = 100 FROM outbox.peek('many', NULL))), 't', 'each key in one lane');

more('a', 5);
my (undef, $twice, undef) = peeked('one', 10);
is($twice, $pages, 'twice as much waits: the same pages');
cmp_ok((peeked('many', 1))[1], '<=', $many_pages, 'of 16 lanes, too');
cmp_ok((peeked('one', 'NULL'))[1], '>', 1.5 * $pages_of_all, 'not so where all is asked for');

# --- a paused key; parked and given up events: what is passed over is not shown, and costs what it is ---
sql(q(SELECT outbox.pause('one', aggregate_type => 'a', aggregate_id => 'k1', reason => 'test')));
is((peeked('one', 10))[1], $pages, 'a paused key');
sql(q(SET outbox.allow_loss = on; INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, event_type, topic, state, due_at)
	SELECT r.id, 0, p.created_at, p.id, 'a', 'e', 't', 'scheduled', now() + interval '1 day' FROM outbox.route r, outbox.peek('one', 1500) p WHERE r.name = 'one'));
my ($after, $pages_after) = peeked('one', 10, q(count(*) || ' ' || (min(created_at) > (SELECT max(created_at) FROM outbox_internal.parked))));
is($after, '10 true', '1,500 that are parked are not shown again');
cmp_ok($pages_after, '<', $pages_of_all, "and are what is read more ($pages_after)");
sql('SET outbox.allow_loss = on; DELETE FROM outbox_internal.parked');

# --- a transaction that stays open; the end of the day ---
my $open = $node->background_psql('postgres');
$open->query_safe(q(BEGIN; SELECT outbox.emit_text('a', 'late', 'e', 'x')));
Outbox::Faults::shift_clock(86_400 * 1_000_000);
Outbox::Faults::put('clock.believe_sooner', 1_000_000_000);
upkeep($node);
more('a', 2);
cmp_ok(sql(q(SELECT count(DISTINCT tableoid) FROM outbox_internal.log)), '>', 1, 'the log goes on in another table');
cmp_ok((peeked('one', 10))[1], '<', 1.5 * $pages, 'behind a transaction that is open, and with a second day');
is((peeked('one', 'NULL', q(count(*) || ' ' || count(*) FILTER (WHERE aggregate_id = 'late'))))[0], '12001 0', 'what is not committed is not shown');
$open->query_safe('COMMIT');
$open->quit;
is((peeked('one', 'NULL', q(count(*) || ' ' || count(*) FILTER (WHERE aggregate_id = 'late'))))[0], '12002 1', 'then it is');

# --- more than it may look at: one of ten thousand; one large transaction ---
foreach (1 .. 15)
{
	sql(q(SET outbox.lone_emit = allow; SELECT count(outbox.emit_text('x', NULL::text, 'e', 'x')) FROM generate_series(1, 9999); SELECT outbox.emit_text('rare', NULL::text, 'e', 'x')));
}
sql(q(SELECT outbox.create_route('large', server => 'held', aggregate_types => '{large}')));
sql(q(SET outbox.lone_emit = allow; SELECT count(outbox.emit_text('large', NULL::text, 'e', i::text)) FROM generate_series(1, 150000) i));
my ($rare, $rare_pages, $rare_said) = peeked('rare', 10);
my (undef, $all_rare_pages) = peeked('rare', 'NULL');
cmp_ok($rare, '<', 10, "one of ten thousand is looked for as far as a bound ($rare found)");
cmp_ok($rare, '>', 0, 'and some are found');
cmp_ok($rare_pages, '<', 0.6 * $all_rare_pages, "$rare_pages pages of $all_rare_pages");
like($rare_said, qr/looked at 100000 events of the log and stopped/, 'which it says');
is((peeked('rare', 'NULL'))[0], 15, 'all, where all are asked for');
my ($large, $large_pages, $large_said) = peeked('large', 3, q(string_agg(convert_from(payload, 'UTF8'), ' ')));
like($large_said, qr/looked at 100000 events/, 'a large transaction, too');
is($large, '1 2 3', 'shows its first');
sql(q(SELECT outbox.resume(server => 'held'), outbox.resume('one', aggregate_type => 'a', aggregate_id => 'k1')));
ok(wait_idle($node, 120), 'all is delivered');
is((peeked('one', 10))[0], 0, 'nothing goes next');
no_server_crashed($node);
done_testing();
