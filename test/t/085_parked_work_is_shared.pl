# Parked events without a key are claimed with SKIP LOCKED by any owner of a lane of the route, so that workers share
# them, each exactly once; those with a key belong to their lane's owner and go in order, whichever session has them
# locked meanwhile. Statements go by index, however much is parked.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(conf => "shared_preload_libraries = 'outbox,auto_explain'\nautovacuum = off\n"
	  . "outbox.workers = 3\noutbox.enabled = off\nauto_explain.log_min_duration = -1\nauto_explain.log_nested_statements = on\n");

sub sql { return $node->safe_psql('postgres', $_[0]) }

redis_route($node, $redis, 'r', lanes => 3, topic => "'s'", backoff_cap => q('2 days'));

# 30,000 without a key; 2,000 keys with an event due and four behind it; 40,000 more behind one that is not due.
my ($loose, $keys, $held) = (30_000, 2_000, 40_000);
sql(qq{
	INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, due_at, aggregate_type, event_type, payload, topic)
	SELECT r.id, n % 3, now() - n * interval '1 us', gen_random_uuid(), CASE n % 2 WHEN 0 THEN 'retrying' ELSE 'scheduled' END,
	  now() - interval '1 minute', 't', 'loose', 'x', 's' FROM outbox.route r, generate_series(1, $loose) n;
	INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, order_key, due_at, aggregate_type, aggregate_id, event_type, payload, topic)
	SELECT r.id, k % 3, now() + (5 * k + n) * interval '1 us', gen_random_uuid(), CASE n WHEN 0 THEN 'retrying' ELSE 'blocked' END,
	  k, CASE n WHEN 0 THEN now() END, 't', 'k' || k, 'keyed', 'x', 's' FROM outbox.route r, generate_series(1, $keys) k, generate_series(0, 4) n;
	INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, order_key, due_at, aggregate_type, aggregate_id, event_type, payload, topic)
	SELECT r.id, 0, now() + n * interval '1 us', gen_random_uuid(), CASE n WHEN 1 THEN 'retrying' ELSE 'blocked' END,
	  -1, CASE n WHEN 1 THEN now() + interval '1 day' END, 't', 'held', 'held', 'x', 's' FROM outbox.route r, generate_series(1, $held) n;
});
sql($_) for "ALTER SYSTEM SET auto_explain.log_min_duration = 0", "ALTER SYSTEM SET outbox.enabled = on", 'SELECT pg_reload_conf()';
ok(wait_for_value($node, 'SELECT count(DISTINCT sender) > 1 FROM outbox_internal.parked', 't'), 'more than one worker sends them');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', $held, 120), 'all that is due is delivered');
sql($_) for "ALTER SYSTEM RESET auto_explain.log_min_duration", 'SELECT pg_reload_conf()';

my (%times, %last, $overtaken);
foreach my $entry (@{ $redis->entries('s') })
{
	$times{ $entry->{id} }++;
	next if !defined $entry->{key};
	$overtaken++ if ($last{ $entry->{key} } // 0) > $entry->{created_at};
	$last{ $entry->{key} } = $entry->{created_at};
}
is(scalar(keys %times), $loose + 5 * $keys, 'each is there');
is(scalar(grep { $_ > 1 } values %times), 0, 'and none twice');
is($overtaken // 0, 0, 'the events of a key are in order');
is(sql('SELECT count(*), count(DISTINCT id) FROM outbox_internal.outcome'), join('|', ($loose + 5 * $keys) x 2), 'outcomes say so');
# Of what was sent together the destination tells the range: a place is the event's own, or none.
my $alone = sql(q{INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, due_at, aggregate_type, event_type, payload, topic)
	SELECT r.id, 0, clock_timestamp(), gen_random_uuid(), 'retrying', clock_timestamp(), 't', 'alone', 'x', 's' FROM outbox.route r RETURNING id});
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', $held, 60), 'one that goes alone is delivered');
is(sql("SELECT count(place) FROM outbox_internal.outcome WHERE id = '$alone'"), '1', 'of which is told where');
is(sql(q{SELECT count(*) FROM outbox_internal.outcome WHERE place !~ '^[0-9]+-[0-9]+$'}), '0', 'which is one entry and no range');

# Entries of the relay workers, each with the lines of its plan.
my @plans = grep { /^\S+ \S+ \S+ \[\d+\] outbox relay LOG:  duration:/ } split /^(?=\d{4}-)/m, slurp_file($node->logfile);
cmp_ok(scalar(@plans), '>', 100, 'plans of the relay workers were logged');
is(scalar(grep { /Seq Scan on parked|parked_count_idx|Sort Key: [^\n]*due_at/ } @plans), 0, 'none reads the table, or sorts what is due');
is(scalar(grep { /Sort Key: [^\n]*\.replay[^\n]*\n\s+->\s+(?:Index|Seq|Bitmap)/ } @plans), 0, 'or sorts the rows of a key');
is(scalar(grep { /Function Scan on _key/ } @plans), 0, 'or calls the rule of keys, which is inlined');
my ($load) = sort { $b <=> $a } map { /duration: ([0-9.]+) ms  plan:\s+Query Text: WITH RECURSIVE k/ } @plans;
note("the longest look at which keys are held took $load ms");
my ($longest) = sort { $b <=> $a } map { /duration: ([0-9.]+) ms  plan:\s+Query Text: SELECT p\.created_at/ } @plans;
note("the longest look for what is due took $longest ms");

# outbox.lag counts what is parked in an index of its own, and not without end.
is(sql('SET auto_explain.log_min_duration = 0; SELECT sum(parked), bool_or(parked_capped) FROM outbox.lag'), '10001|t',
	'outbox.lag says that there are at least ten thousand');
my ($counting) = grep { /client backend \S+ LOG:  duration: .*plan:/ && /parked_count_idx/ } split /^(?=\d{4}-)/m, slurp_file($node->logfile);
like($counting // '', qr/Index Only Scan using parked_count_idx on parked/, 'which it counts by the index alone');
unlike($counting // '', qr/Seq Scan on parked/, 'and not in the table');

# A hundred thousand events of a topic that is paused fall due, before all others. They are passed by once and not at each
# claim, and do not hold up what is behind them.
sub entries_read { return sql(q{SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE indexrelname IN ('parked_due_idx', 'parked_shared_idx')}) }
my ($away, $healthy) = (100_000, 6);
sql(q{SELECT outbox.pause(route => 'r', topic => 'away', reason => 'not now')});
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.side_topic WHERE topic = 'away'}, '3', 30), 'a topic has left the lanes');
sql(qq{
	INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, order_key, due_at, aggregate_type, aggregate_id, event_type, payload, own_topic, topic)
	SELECT r.id, 0, now() + n * interval '1 us', gen_random_uuid(), 'scheduled', CASE n % 2 WHEN 0 THEN -100 - n END, now() - interval '1 hour',
	  't', CASE n % 2 WHEN 0 THEN 'a' || n END, 'away', 'x', 'away', 'away' FROM outbox.route r, generate_series(1, $away) n;
});
my $before = $redis->xlen('s');
my $read = 0;
foreach my $n (1 .. $healthy)
{
	$read = entries_read() if $n == 3;
	sql(q{INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, order_key, due_at, aggregate_type, aggregate_id, event_type, payload, topic)
	  SELECT r.id, 0, clock_timestamp(), gen_random_uuid(), 'retrying', CASE n WHEN 0 THEN 123456789 END, clock_timestamp(), 't',
		CASE n WHEN 0 THEN 'well' END, 'well', 'x', 's' FROM outbox.route r, generate_series(0, 1) n});
	ok(wait_until(sub { $redis->xlen('s') >= $before + 2 * $n }, 30), "healthy events $n are delivered");
}
ok(wait_for_value($node, "SELECT count(*) FROM outbox_internal.parked WHERE topic = 'away' AND state = 'scheduled'", $away), 'and of the paused topic none');
sub read_since { return entries_read() - $read }
cmp_ok(read_since(), '<', 3 * $away, 'after the first look claims do not read them again: ' . read_since() . ' entries for four of them');

# A session has the head of a key locked; what is behind it waits, and goes once that has removed it, though it notifies
# no worker.
sql("SET outbox.allow_loss = on; DELETE FROM outbox_internal.parked");
my $person = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$person->query_safe('BEGIN');
sql(q{
	INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, order_key, due_at, aggregate_type, aggregate_id, event_type, payload, topic)
	SELECT r.id, 0, now() + n * interval '1 us', gen_random_uuid(), 'retrying', 77, now() + interval '10 s', 't', 'busy', 'busy', 'x', 's'
	FROM outbox.route r, generate_series(1, 3) n
});
my $head = $person->query_safe('SELECT id FROM outbox_internal.parked ORDER BY created_at LIMIT 1 FOR UPDATE');
sql('SELECT outbox.pause(route => $$r$$, topic => $$none$$, reason => $$wakes the lanes$$)');
ok(wait_for_value($node, "SELECT count(*) FROM outbox_internal.parked WHERE state = 'blocked'", '2', 60), 'what is behind a locked head waits');
$person->query_safe("SET client_min_messages = error; SET outbox.allow_loss = on; DELETE FROM outbox_internal.parked WHERE id = '$head'");
$person->query_safe('COMMIT');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 60), 'and goes when that has removed it');
$person->quit;
my @busy = grep { ($_->{key} // '') eq 'busy' } @{ $redis->entries('s') };
is(scalar(@busy), 2, 'both, and the removed one never');
cmp_ok($busy[0]{created_at}, '<', $busy[1]{created_at}, 'in order');

no_server_crashed($node);
done_testing();
