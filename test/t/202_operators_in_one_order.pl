# Two operators act at once on the same parked events, on one route and on two; each act locks several rows. Somebody's hand is on
# rows in the middle, so that both get half of what they want: when it lets go, both acts are done, one after the other, whatever
# they are and whoever came first. None is ended by a deadlock.
# matrix: S2 R66
use strict;
use warnings;

use IPC::Run;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node(conf => "outbox.enabled = off\ndeadlock_timeout = 200ms\n");
my $hand = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
my $event = '11111111-1111-1111-1111-111111111111';
my $other = '22222222-2222-2222-2222-222222222222';
$hand->query_safe(qq{
	SET client_min_messages = error; SET outbox.allow_loss = on;
	CREATE SERVER s FOREIGN DATA WRAPPER outbox_null;
	-- As heaps have them after a while: not in the order of any index.
	CREATE FUNCTION again() RETURNS void LANGUAGE plpgsql AS \$\$
	BEGIN
	  DELETE FROM outbox.pause;
	  TRUNCATE outbox_internal.parked, outbox.replay;
	  PERFORM outbox.drop_route(name) FROM outbox.route;
	  PERFORM outbox.create_route('r1', 's'), outbox.create_route('r2', 's');
	  INSERT INTO outbox.replay (number, who, route, to_route, filter, from_time, to_time, matched, state) OVERRIDING SYSTEM VALUE
	    VALUES (7, 'x', 'r1', 'r1', '{}', now(), now(), 4, 'scheduled');
	  INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, replay, state, order_key, due_at, aggregate_type, aggregate_id, event_type, payload, topic)
	  SELECT r.id, 0, timestamptz '2026-01-01' + v.at * interval '1 s', v.id, v.replay, 'retrying', 77, 'infinity', 'order', 'k', 'e', 'x', 't'
	  FROM (VALUES (1, 1, '$event'::uuid, 7, 'r2'), (2, 1, '$event', 7, 'r1'), (3, 2, '$other', 7, 'r2'), (4, 2, '$other', 7, 'r1'),
	    (5, 2, '$other', 0, 'r1'), (6, 2, '$other', 0, 'r2'), (7, 1, '$event', 0, 'r1'), (8, 1, '$event', 0, 'r2')) v (n, at, id, replay, route)
	  JOIN outbox.route r ON r.name = v.route ORDER BY v.n;
	END \$\$});
my %acts = (
	retry => "SELECT outbox.retry('$event')",
	skip => "SELECT outbox.skip('$event', 'x')",
	cancel => 'SELECT outbox.cancel_replay(7)',
	topic => q{SELECT outbox.alter_route('r1', topic => 'elsewhere')},
	drop => q{SELECT outbox.drop_route('r1')},
	pause => q{SELECT outbox.pause('r1', aggregate_type => 'order', aggregate_id => 'k', reason => 'x')},
	seek => q{CALL outbox.seek('r1', 'infinity', dry_run => false)},
	redrive => q{CALL outbox.redrive(dry_run => false)},
	forget => q{CALL outbox.forget('order', 'k', undelivered => true, dry_run => false)});

# Until it waits for a lock, or has ended.
sub start
{
	my ($name) = @_;
	my %act = (name => $name, error => '');
	$act{process} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') , '-v', 'VERBOSITY=verbose', '-c', $acts{$name} ], '<', \undef, '>', \my $out, '2>', \$act{error});
	return \%act;
}

sub settle
{
	my ($count, @acts) = @_;
	for (1 .. 2000)
	{
		eval { $_->{process}->pump_nb; 1 } foreach grep { $_->{process}->pumpable } @acts;    # it may end just now
		my $waiting = $hand->query_safe('SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted');
		last if $waiting + (grep { !$_->{process}->pumpable } @acts) >= $count;
		sleep 0.01;
	}
	return;
}

my @deadlocked;
my $pairs = 0;
my $met = 0;
foreach my $first (sort keys %acts)
{
	foreach my $second (sort keys %acts)
	{
		$hand->query_safe("SELECT again(); BEGIN; SELECT id FROM outbox_internal.parked WHERE id = '$other' FOR UPDATE");
		my @both = (start($first));
		settle(1, @both);
		push @both, start($second);
		settle(2, @both);
		$met += $hand->query_safe('SELECT count(DISTINCT pid) = 2 FROM pg_locks WHERE NOT granted') eq 't' ? 1 : 0;
		$hand->query_safe('COMMIT');
		$_->{process}->finish foreach @both;
		push @deadlocked, "$first, then $second: $_->{name}" foreach grep { $_->{error} =~ /40P01|deadlock/ } @both;
		$pairs++;
	}
}
is(join("\n", @deadlocked), '', 'no deadlock of two');
cmp_ok($met, '>', $pairs / 6, "of $pairs pairs these waited both: $met");
$hand->quit;
no_server_crashed($node);
done_testing();
