# matrix: E-6 E-5
# A Redis that was a replica for a moment is another run of the server, and of the two connections of a worker (lanes, parked
# events) only one may notice. Whichever it is: what is due goes, once or nearly so, and nothing is sent over and over again.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
my %redis;
foreach my $name (qw(idle busy))
{
	$redis{$name} = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
	redis_route($node, $redis{$name}, $name, aggregate_types => "'{$name}'", topic => "'$name'", lanes => $name eq 'busy' ? 8 : 1);
}
sub emit
{
	my ($name, $from, $to, $due) = @_;
	$due = defined $due ? ", deliver_at => clock_timestamp() + interval '$due s'" : '';
	sql("SELECT count(outbox.emit_text('$name', (i % 5)::text, 'x', (i % 5) || ' ' || i$due)) FROM generate_series($from, $to) i");
	return;
}
sub flip
{
	my ($name, $seconds) = @_;
	$redis{$name}->command('REPLICAOF', '127.0.0.1', 1);
	select undef, undef, undef, $seconds;    # so long it takes nothing
	$redis{$name}->command('REPLICAOF', 'NO', 'ONE');
	return;
}
# All of 1..$count are there, in order per key but for repeats, with at most $more repeats; and then no more comes.
sub arrived
{
	my ($name, $count, $more, $what) = @_;
	my %seen;
	my $ok = wait_until(sub {
		%seen = ();
		$seen{ $_->{payload} }++ foreach @{ $redis{$name}->entries($name) };
		return keys %seen >= $count && sql("SELECT count(*) FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE r.name = '$name'") eq '0';
	}, 40);
	ok($ok, "$what: all of $count have arrived") or diag(scalar(keys %seen) . ' of them', sql('SELECT * FROM outbox.destination'));
	my $length = $redis{$name}->xlen($name);
	cmp_ok($length, '<=', $count + $more, "$what: hardly anything twice");
	select undef, undef, undef, 2;    # what must not happen meanwhile
	is($redis{$name}->xlen($name), $length, "$what: nothing comes after that");
	return;
}

# --- only the connection of parked events notices: the lanes have nothing to send ---
emit('idle', 1, 5);
ok(wait_idle($node), 'the lanes are connected');
emit('idle', 6, 10, 1);
select undef, undef, undef, 0.5;
flip('idle', 1.5);
arrived('idle', 10, 5, 'due while it was a replica');
emit('idle', 11, 15, 0.2);
arrived('idle', 15, 5, 'and later ones');

# --- only that of the lanes: parked events have gone out before, and have nothing to send just then ---
emit('busy', 1, 40, 0.2);
arrived('busy', 40, 0, 'delayed events');
$redis{busy}->command('REPLICAOF', '127.0.0.1', 1);
emit('busy', 41, 80);
ok(wait_for_value($node, "SELECT count(*) > 0 FROM outbox.destination WHERE server = 'busy' AND state <> 'closed'", 't'), 'it takes nothing');
$redis{busy}->command('REPLICAOF', 'NO', 'ONE');
arrived('busy', 80, 80, 'the lanes have met another run');
emit('busy', 81, 120, 0.2);
arrived('busy', 120, 120, 'delayed events after that');

# --- both at work, again and again ---
foreach my $round (1 .. 3)
{
	my $from = 120 + 120 * ($round - 1);
	emit('busy', $from + 1, $from + 60, 0.5);
	emit('busy', $from + 61, $from + 120);
	flip('busy', 0.7);
}
arrived('busy', 480, 480, 'three times');
ok(wait_idle($node), 'and all is idle');
no_server_crashed($node);
done_testing();
