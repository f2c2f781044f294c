# Claims of parked events by workers, stopped in the middle: another worker takes what is left and does not wait; people's
# retry, skip, discard and redrive wait, are refused or pass by, and no event is delivered twice or after it was given up.
# ring: long
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 2\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('{aggregate_type}'), lanes => 2);

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub emit { my ($type, $seconds) = @_; return sql("SELECT outbox.emit_text('$type', NULL::text, 'x', 'x', deliver_at => clock_timestamp() + interval '$seconds s')") }
sub scheduled { my ($count) = @_; return ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'scheduled'}, $count, 20), "$count wait for their time") }
sub comes { my ($stream, $count, $what) = @_; return ok(wait_until(sub { $redis->xlen($stream) >= $count }, 30), $what) }
sub nothing_parked { return ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 30), 'nothing is left') }
sub refused { my ($query) = @_; my ($status, undef, $error) = $node->psql('postgres', "\\set VERBOSITY sqlstate\n$query"); return $error =~ /([0-9A-Z]{5})\s*$/ ? $1 : "not refused: $error" }
sub locked { return sql(q{SELECT (SELECT count(*) FROM outbox_internal.parked) - (SELECT count(*) FROM (SELECT FROM outbox_internal.parked FOR UPDATE SKIP LOCKED) l)}) }

# Begins something, and waits until a worker that has claimed of it stands at the point. Where it is one that has claimed
# nothing, the other may have been faster: it goes on, and something else is begun.
sub stop_claim
{
	my ($point, $claimed, $begin) = @_;
	foreach (1 .. 20)
	{
		Outbox::Faults::arm($point, 'wait');
		$begin->();
		return ok(0, 'a claim is stopped') if !Outbox::Faults::await_waiting($point, 20);
		# Not the other one's, which is over at once.
		return ok(1, 'a claim is stopped') if $claimed->() > 0 && do { select undef, undef, undef, 0.5; $claimed->() > 0 };
		Outbox::Faults::release($point);
	}
	return ok(0, 'a claim is stopped');
}
# What nobody has under his hands.
sub all_now { return sql('SELECT count(outbox.retry(id)) FROM (SELECT id FROM outbox_internal.parked WHERE sender IS NULL FOR UPDATE SKIP LOCKED) p') }
sub came { my ($stream, $event) = @_; return scalar grep { $_->{id} eq $event } @{ $redis->entries($stream) } }
sub arrives { my ($stream, $event, $what) = @_; return ok(wait_until(sub { came($stream, $event) }, 30), $what) }

# A claim that is not committed: the other worker passes it by.
my $events = 700;
sql("SELECT count(outbox.emit_text('shared', NULL::text, 'x', i::text, deliver_at => now() + interval '1 hour')) FROM generate_series(1, $events) i");
scheduled($events);
stop_claim('parked.claim.uncommitted', \&locked, \&all_now);
ok(wait_for_value($node, 'SELECT count(*) FROM (SELECT FROM outbox_internal.parked FOR UPDATE SKIP LOCKED) l', '0', 30), 'another worker does not wait for it');
my $held = locked();
cmp_ok($held, '<', $events, "it has $held of them under its hands");
cmp_ok($held, '>', 0, 'still');
comes('shared', $events - $held, 'the others are delivered meanwhile');
is($redis->xlen('shared'), $events - $held, 'and none of these');
Outbox::Faults::release('parked.claim.uncommitted');
comes('shared', $events, 'released, it delivers its own');
nothing_parked();
my %times;
$times{ $_->{payload} }++ foreach @{ $redis->entries('shared') };
is_deeply([ scalar(keys %times), scalar(grep { $_ > 1 } values %times) ], [ $events, 0 ], 'each came once');

# Who acts on an event of such a claim waits for it, and is told.
my $id;
sub one { my ($type) = @_; $id = emit($type, 1000); wait_for_value($node, "SELECT count(*) FROM outbox_internal.parked WHERE id = '$id'", '1', 20); return all_now() }
stop_claim('parked.claim.uncommitted', \&locked, sub { one('waits') });
my $person = $node->background_psql('postgres', on_error_stop => 0, timeout => 600);
my $pid = $person->query_safe('SELECT pg_backend_pid()');
$person->{stdin} .= "SELECT outbox.skip('$id', 'too late');\n";
$person->{run}->pump_nb;
ok(wait_for_value($node, "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid", 'Lock', 20), 'skip() waits for the claim');
Outbox::Faults::release('parked.claim.uncommitted');
arrives('waits', $id, 'the event is delivered');
ok(wait_for_value($node, "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid", 'Client', 20), 'the call ends');
$person->quit;
nothing_parked();
is(sql("SELECT string_agg(outcome, ' ') FROM outbox_internal.outcome WHERE id = '$id'"), 'delivered', 'and has not skipped what was delivered');
is(sql("SELECT count(*) FROM outbox.audit WHERE event_id = '$id' AND action = 'skip'"), '0', 'nor says so');

# A claim that is committed: everybody is refused until it is settled.
stop_claim('parked.claim.after', sub { return sql("SELECT count(sender) FROM outbox_internal.parked WHERE id = '$id'") }, sub { one('sending') });
is(refused("SELECT outbox.$_;"), '55006', "$_ is refused while it is being sent")
  foreach "retry('$id')", "skip('$id', 'no')", "discard('$id', 'no')";
is(sql('CALL outbox.redrive(dry_run => false)'), '0', 'redrive() passes it by');
Outbox::Faults::release('parked.claim.after');
arrives('sending', $id, 'it is delivered');
nothing_parked();
is(came('sending', $id), 1, 'once');

# The person is first. Workers do not wait, and do what was decided.
$person = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
my ($given_up, $kept, $hurried) = map { emit('person', $_) } 15, 15, 1000;
scheduled(3);
$person->query_safe('BEGIN');
$person->query_safe("SELECT outbox.skip('$given_up', 'not wanted')");
$person->query_safe('SAVEPOINT s');
$person->query_safe("SELECT outbox.skip('$kept', 'not wanted')");
$person->query_safe('ROLLBACK TO s');
$person->query_safe("SELECT outbox.retry('$hurried')");
emit('person', 16);
comes('person', 1, 'who is behind two that somebody has locked is delivered');
$person->query_safe('COMMIT');
comes('person', 3, 'what was not given up, and what was hurried, come after commit');
nothing_parked();
is($redis->xlen('person'), 3, 'each once');
is(came('person', $given_up), 0, 'and never what was given up');

# Who gives the head of a key up does not wait for whoever has another event of that key under his hands, and that one is
# not overtaken.
my ($head, @followers) = split /\n/, sql(q{INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, due_at, order_key, aggregate_type, aggregate_id,
	event_type, payload, topic)
  SELECT r.id, 0, now() + n * interval '1 us', gen_random_uuid(), CASE n WHEN 1 THEN 'retrying' ELSE 'blocked' END,
	CASE n WHEN 1 THEN now() + interval '9 minutes' END, 4711, 'key', 'k', 'x', n::text::bytea, 'key' FROM outbox.route r, generate_series(1, 3) n RETURNING id});
$person->query_safe('BEGIN');
$person->query_safe("SELECT 1 FROM outbox_internal.parked WHERE id = '$followers[0]' FOR UPDATE");
is(sql("SET lock_timeout = '20s'; SELECT outbox.skip('$head', 'not wanted')"), '1', 'skip() does not wait for who is behind');
sql('SELECT pg_sleep(1.5)'); # workers look for what is due meanwhile
is(sql("SELECT string_agg(state, ' ') FROM outbox_internal.parked WHERE id IN ('$followers[0]', '$followers[1]')"), 'blocked blocked', 'nobody overtakes it');
$person->query_safe('ROLLBACK');
comes('key', 2, 'both are delivered');
is_deeply([ map { $_->{payload} } @{ $redis->entries('key') } ], [ 2, 3 ], 'in order');
nothing_parked();

# Dead letters that somebody has under his hands are left alone by redrive().
sql(q{INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, aggregate_type, event_type, payload, topic, error_class, error_code, error_message)
  SELECT r.id, n % 2, now() + n * interval '1 us', gen_random_uuid(), 'dead', 'redriven', 'x', 'x', 'redriven', 'message', 'TOO_LARGE', 'no'
  FROM outbox.route r, generate_series(1, 50) n});
$person->query_safe('BEGIN');
$person->query_safe('SELECT 1 FROM outbox_internal.parked ORDER BY created_at LIMIT 10 FOR UPDATE');
my ($status, $done, $told) = $node->psql('postgres', 'CALL outbox.redrive(batch => 7, dry_run => false)');
is($done, '40', 'redrive() takes the others');
like($told, qr/10 dead letters had changed or were locked by another session/, 'and says so');
$person->query_safe('ROLLBACK');
$person->quit;
comes('redriven', 40, 'these are delivered');
is(sql(q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'dead'}), '10', 'the ten are as they were');
is(sql('CALL outbox.redrive(dry_run => false)'), '10', 'and can be redriven now');
comes('redriven', 50, 'all are delivered');
nothing_parked();
is($redis->xlen('redriven'), 50, 'once each');

no_server_crashed($node);
done_testing();
