# outbox.reset_clock() waits for transactions that have emitted, and what they commit meanwhile is undelivered to it.
# matrix: R4
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('out'));
sub sql { return $node->safe_psql('postgres', @_) }
sub resets { return sql(q(SELECT count(*) FROM outbox.audit WHERE action = 'reset_clock')) }
sub emit { my ($n) = @_; return "SELECT outbox.emit('t', 'k', 'e', '$n')" }
sub session { return $node->background_psql('postgres', on_error_stop => 1, timeout => 600) }

# Without its NOTICE; $_[0]: microseconds less than ten seconds for which it may wait.
sub begin_reset
{
	my ($sooner) = @_;
	Outbox::Faults::put('reset.sooner', $sooner);
	my %reset = (out => '', err => '');
	$reset{run} = IPC::Run::start([ 'psql', '-XAtq', '-c', 'SET client_min_messages = warning', '-c', "SELECT outbox.reset_clock() > '2 days'", $node->connstr('postgres') ],
		'>', \$reset{out}, '2>', \$reset{err});
	ok(wait_for_value($node, q(SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND objid = 'outbox_internal.clock_ceiling'::regclass AND objsubid = 1 AND granted), 1), 'it holds the clock');
	return \%reset;
}

# The clock of events is three days ahead.
sub put_ahead
{
	sql(q(SELECT setval('outbox_internal.clock_ceiling', (extract(epoch FROM now() + interval '3 days') * 1000000)::bigint)));
	$node->stop('immediate');
	$node->start;
	sql(emit($_[0]));
	ok(wait_idle($node), 'the clock is ahead');
	return;
}

put_ahead(1);
my $writer = session();

# Nobody delivers what is committed while it waits.
sql(q(SELECT outbox.pause(route => 'r', reason => 'test')));
$writer->query_safe('BEGIN; ' . emit(2));
my $reset = begin_reset(6_500_000);
$writer->query_safe('COMMIT');
$reset->{run}->finish;
like($reset->{err}, qr/Route "r" has 1 undelivered event/, 'an event that was committed meanwhile, and is not delivered, keeps it from going through');
is(resets(), 0, 'it has not');
sql(q(SELECT outbox.resume(route => 'r')));
ok(wait_idle($node), 'it is delivered');

is(join(' ', @{ $redis->column('out', 'payload') }), '1 2', 'each once, in order');
$writer->quit;
no_server_crashed($node);
done_testing();
