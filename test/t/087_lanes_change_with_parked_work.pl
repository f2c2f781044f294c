# The number of a route's lanes changes while dead letters are redriven and events are replayed: whatever is parked belongs
# to a lane that there is, everything arrives, and nothing that a session had locked is sent twice.
# matrix: S2
# ring: long
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node(conf => "outbox.workers = 2\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', $_[0]) }
redis_route($node, $redis, 'r', topic => q('t'), lanes => 4);

sub lanes_become
{
	my ($lanes) = @_;
	return ok(wait_for_value($node, 'SELECT lanes, lanes_wanted FROM outbox.route', "$lanes|", 60), "the lanes become $lanes");
}

# Starts a statement in a session of its own.
sub begin
{
	my ($statement) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
	$session->query_safe('SET client_min_messages = warning');
	$session->{stdin} .= "$statement;\n";
	$session->{run}->pump_nb;
	return $session;
}

# --- 100 dead letters, each of its own key, redriven one by one ---
sql(q{INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, payload, topic, error_class,
	error_code, error_message)
  SELECT r.id, 0, now() + k * interval '1 us', gen_random_uuid(), 'order', 'k' || k, 'x', 'redriven', 't', 'message', 'X', 'x'
  FROM outbox.route r, generate_series(1, 100) k});
my $session = begin(q{CALL outbox.redrive('r', batch => 1, per_second => 8, dry_run => false)});
ok(wait_until(sub { $redis->xlen('t') >= 10 }, 60), 'some dead letters have gone');
sql(q{SELECT outbox.alter_route('r', lanes => 1)});
lanes_become(1);
cmp_ok(sql(q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'dead'}), '>', 3, 'before the last of them is redriven');
$session->query_safe('SELECT 1');
$session->quit;
is(sql('SELECT count(*) FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE p.lane >= r.lanes'), '0', 'none is in a lane that is gone');
ok(wait_until(sub { $redis->xlen('t') == 100 }, 60), 'all arrive');

# --- a replay, stopped between two batches while the lanes change ---
sql(q{SELECT outbox.alter_route('r', lanes => 4)});
lanes_become(4);
my $events = 4_000;
sql(qq{SELECT cardinality(outbox.emit_many('bulk', (SELECT array_agg((i % 100)::text ORDER BY i) FROM generate_series(1, $events) i), 'made',
	(SELECT array_agg(to_jsonb(i) ORDER BY i) FROM generate_series(1, $events) i)))});
ok(wait_idle($node), 'events are delivered');
# The first batch waits for the holder of lock 1; behind it a session waits for the table.
sql(q{CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';
	CREATE TRIGGER stop AFTER UPDATE ON outbox.replay FOR EACH ROW WHEN (NEW.copied = 500) EXECUTE FUNCTION stop()});
my $locker = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$locker->query_safe('SELECT pg_advisory_lock(1)');
$session = begin(q{CALL outbox.replay(since => '-infinity', aggregate_type => 'bulk', route => 'r', per_second => 400, dry_run => false)});
ok(wait_for_value($node, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'}, '1', 60), 'a replay copies');
my $stopper = begin('BEGIN; LOCK TABLE outbox.replay IN EXCLUSIVE MODE');
ok(wait_for_value($node, q{SELECT count(*) FROM pg_locks WHERE relation = 'outbox.replay'::regclass AND NOT granted}, '1', 60), 'a session waits for it');
$locker->query_safe('SELECT pg_advisory_unlock(1)');
$stopper->query_safe('SELECT 1');
cmp_ok(sql('SELECT copied FROM outbox.replay'), '<', $events, 'it is stopped');
sql(q{SELECT outbox.alter_route('r', lanes => 1)});
lanes_become(1);
$stopper->query_safe('COMMIT');
$session->query_safe('SELECT 1');
$session->quit;
is(sql('SELECT copied FROM outbox.replay'), $events, 'it goes on to its end');
is(sql('SELECT count(*) FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE p.lane >= r.lanes'), '0', 'no copy is in a lane that is gone');

# --- and again and again, while the copies are sent ---
foreach my $lanes (3, 2)
{
	cmp_ok(sql(q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'scheduled'}), '>', 0, 'copies are being sent') if $lanes == 3;
	sql("SELECT outbox.alter_route('r', lanes => $lanes)");
	lanes_become($lanes);
}
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 60), 'all copies are sent');
my (%times, %last, $overtaken);
foreach my $entry (grep { $_->{aggregate_type} eq 'bulk' } @{ $redis->entries('t') })
{
	my $replay = $entry->{'h:outbox-replay'} // '';
	$overtaken++ if !$times{"$entry->{id} $replay"}++ && ($last{"$entry->{key} $replay"} // 0) > $entry->{created_at};
	$last{"$entry->{key} $replay"} = $entry->{created_at};
}
is(scalar(keys %times), 2 * $events, 'each event is there, and its copy');
is(scalar(grep { $_ > 1 } values %times), 0, 'none twice');
is($overtaken // 0, 0, 'in the order of their keys');
is($redis->xlen('t'), 2 * $events + 100, 'and nothing else');

# --- a session has parked events in an open transaction ---
sql(q{INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, payload, topic, error_class,
	error_code, error_message)
  SELECT r.id, 0, now() + k * interval '1 us', gen_random_uuid(), 'order', 'm' || k, 'x', 'held', 't', 'message', 'X', 'x'
  FROM outbox.route r, generate_series(1, 12) k});
$locker->query_safe('SET client_min_messages = warning; BEGIN; SELECT outbox.retry(id) FROM outbox_internal.parked');
sql(q{SELECT outbox.alter_route('r', lanes => 3)});
my $arrived = $redis->xlen('t');
my $late = 0;
for (1 .. 12)
{
	sql(q{SELECT outbox.emit('order', 'k' || i, 'x', '{}') FROM generate_series(1, 4) i});
	$arrived += 4;
	$late++ unless wait_until(sub { $redis->xlen('t') == $arrived }, 60);
	sleep 0.25;
}
is($late, 0, 'events flow meanwhile');
is(sql('SELECT lanes, lanes_wanted FROM outbox.route'), '2|3', 'the lanes wait for it');
$locker->query_safe('COMMIT');
lanes_become(3);
ok(wait_until(sub { $redis->xlen('t') == $arrived + 12 }, 30), 'what was held arrives');

no_server_crashed($node);
done_testing();
