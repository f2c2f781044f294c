# What wait_until_idle() says is left counts a parked event once: one that is tried again is not due as well when the time of its
# next try has come, nor is one whose deliver_at has come scheduled.
# matrix: M9
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { return $node->safe_psql('postgres', @_) }
sql('CREATE SERVER n FOREIGN DATA WRAPPER outbox_null');
# Paused from its beginning, so that nobody sends what is put there.
sql(q(BEGIN; SELECT outbox.create_route('r', 'n', '{a}'), outbox.pause('r', reason => 'test'); COMMIT));
sub park
{
	my ($number, $state, $due, $keyed) = @_;
	my $error = $state eq 'retrying' ? q('message', 'SAYS_NO', 'no', now() - interval '2 hours') : 'NULL, NULL, NULL, NULL';
	sql(qq(INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, topic, state, due_at, order_key, error_class, error_code, error_message, failed_at)
		SELECT r.id, 0, now() - interval '3 hours' + n * interval '1 us', gen_random_uuid(), 'a', CASE WHEN $keyed THEN n::text END, 'e', 't', '$state', now() + interval '$due', CASE WHEN $keyed THEN n END, $error
		FROM outbox.route r, generate_series(1, $number) n));
	return;
}
sub left
{
	my ($arguments) = @_;
	my (undef, $idle, $told) = $node->psql('postgres', "SELECT outbox.wait_until_idle($arguments)");
	is($idle, 'f', 'not idle');
	return $told =~ /(Parked: [^\n]*)/ ? $1 : $told;
}
park(7, 'retrying', '-1 hour', 'false');
park(5, 'retrying', '-1 hour', 'true');
is(left(q('0')), 'Parked: 12 events retrying.', 'tried again, and nothing of them is due');
park(1, 'scheduled', '-1 hour', 'false');
park(2, 'scheduled', '-1 hour', 'true');
park(4, 'scheduled', '1 hour', 'false');
is(left(q('0')), 'Parked: 12 events retrying, 3 events due and not gone.', 'those whose deliver_at has come are');
is(left(q('0', include_delayed => true)), 'Parked: 12 events retrying, 4 events scheduled, 3 events due and not gone.', 'and are not scheduled any more');
is(sql(q(SELECT overdue FROM outbox.lag)), '15', 'lag counts whatever has to go now');
$node->stop;
done_testing();
