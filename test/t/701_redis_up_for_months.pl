# A Redis that has been up, and met, for longer than outbox keeps runs of it in mind by default loses what it was sent: all of it
# comes again, also what went out from where it was parked; and runs of before that nothing depends on any more are forgotten.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my %redis;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

sub emit
{
	my ($name, $from, $to, $due) = @_;
	my $later = $due ? ", deliver_at => clock_timestamp() + interval '$due s'" : '';
	return sql("SELECT count(outbox.emit_text('$name', 'k', 'x', 'k ' || i$later)) FROM generate_series($from, $to) i");
}

sub arrived
{
	my ($name, $count, $what) = @_;
	return ok(wait_until(sub {
		$redis{$name}->xlen('t') >= $count && sql("SELECT count(*) FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE r.name = '$name'") eq '0'
	}, 60), "$name: $what") || diag($redis{$name}->xlen('t'));
}
sub there { my ($name) = @_; return by_key([ map { $_->{payload} } @{ $redis{$name}->entries('t') } ])->{k} // '' }
# As if all that was met so far had been met so many days before.
sub age { my ($days) = @_; return sql("SET outbox.allow_loss = on; SET session_replication_role = replica; UPDATE outbox_internal.server_run SET met_at = met_at - interval '$days days'") }
sub runs { return sql('SELECT string_agg(number::text, \',\' ORDER BY number) FROM outbox_internal.server_run') }

foreach my $name (qw(one two))
{
	$redis{$name} = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
	redis_route($node, $redis{$name}, $name, aggregate_types => "'{$name}'", topic => "'t'");
	emit($name, 1, 3);
	arrived($name, 3, 'the first arrive');
	$redis{$name}->command('SAVE');
	emit($name, 4, 8, 1);
	arrived($name, 8, 'delayed events arrive');
}
is(runs(), '1,2', 'one run of each was met');
age(91);
# The second is restarted by its operator, with all it has: another run is met there, and what is old is swept.
$redis{two}->command('SAVE');
$redis{two}->kill9;
$redis{two}->restart;
emit('two', 9, 9);
arrived('two', 9, 'after a restart that lost nothing');
is(runs(), '1,2,3', 'both first runs are needed still: what they were sent is in outbox_internal.outcome');

$redis{one}->kill9;
$redis{one}->restart;
emit('one', 9, 9);
arrived('one', 9, 'what was lost comes again');
is(there('one'), join(' ', 1 .. 9), 'and all of it, in order');
is(there('two'), join(' ', 1 .. 9), 'the other has lost nothing');

# Nothing depends on them any more.
age(91);
sql('SET outbox.allow_loss = on; SET session_replication_role = replica; DELETE FROM outbox_internal.outcome');
my $before = runs();
$redis{two}->command('SAVE');
$redis{two}->kill9;
$redis{two}->restart;
emit('two', 10, 10);
arrived('two', 10, 'after one more restart');
like($before, qr/^1,2,3,4/, 'there were four at least');
unlike(runs(), qr/^[12],/, 'those that came before the last at their address are forgotten');
is(sql(q(SELECT count(*) FROM (SELECT max(number) FROM outbox_internal.server_run GROUP BY server) n)), 2, 'the last of each is not');
no_server_crashed($node);
done_testing();
