# outbox.reset_clock() waits for transactions that have emitted, or are about to, and looks again and again: what they
# commit meanwhile is undelivered to it, and what they do is seen as it is by then, not as it was at its first look.
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

# It lets the clock go now and then. One who was idle at its first look gets a reading then, and is not through with it.
my $late = session();
$late->query_safe('BEGIN; SELECT pg_current_xact_id()');
$writer->query_safe('BEGIN; ' . emit(3));
$reset = begin_reset(6_500_000);
Outbox::Faults::arm('emit.reading', 'wait');
$late->query_until(qr/begun/, '\echo begun' . "\n" . emit(4) . ";\n");
ok(Outbox::Faults::await_waiting('emit.reading', 60), 'it lets somebody take a reading who was idle at its first look');
$writer->query_safe('COMMIT');
$reset->{run}->finish;
like($reset->{err}, qr/A transaction that has emitted, or may be about to, is under way: process \d+/, 'who keeps it from going through');
is(resets(), 0, 'it has not');
Outbox::Faults::release('emit.reading');
$late->query_safe('COMMIT');
ok(wait_idle($node), 'they are delivered');

# One who was busy then may be idle by now: nothing is to be feared of that one.
my $idle = session();
$idle->query_safe('BEGIN; SELECT pg_current_xact_id()');
$idle->query_until(qr/begun/, '\echo begun' . "\nSELECT pg_sleep(3);\n");
ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'), 1), 'somebody is busy');
$reset = begin_reset(0);
$reset->{run}->finish;
is($reset->{out} . $reset->{err}, "t\n", 'it goes through once that one is idle');
$idle->query_safe('COMMIT');
$_->quit foreach $writer, $late, $idle;
sql(emit(5));
ok(wait_idle($node), 'events flow');

# Once more in the same transaction: it has hold of the clock already.
put_ahead(6);
$writer = session();
$late = session();
Outbox::Faults::arm('keeper.cycle', 'wait'); # which keeps the ceiling, too
ok(Outbox::Faults::await_waiting('keeper.cycle', 60), 'the keeper rests');
$writer->query_safe(q(BEGIN; SET LOCAL client_min_messages = warning; SELECT outbox.reset_clock()));
$late->query_until(qr/begun/, '\echo begun' . "\n" . emit(7) . ";\n");
my $waits = q(SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND objid = 'outbox_internal.clock_ceiling'::regclass AND objsubid = 1 AND NOT granted);
ok(wait_until(sub { sql($waits) > 0 }), 'somebody waits for the clock');
Outbox::Faults::arm('ceiling.keep', 'sleep * 1');
is($writer->query_safe(q(SELECT outbox.reset_clock() > '2 days')), 't', 'it is called again');
is(Outbox::Faults::hits('ceiling.keep'), 0, 'and does not touch the ceiling, below which others would go on');
Outbox::Faults::disarm('ceiling.keep');
$writer->query_safe('COMMIT');
Outbox::Faults::release('keeper.cycle');
$late->query_safe('SELECT 1');
ok(wait_idle($node), 'all is delivered');
is(sql(q(SELECT bool_and(created_at < now() + interval '1 hour') FROM outbox_internal.log WHERE convert_from(payload, 'UTF8') IN ('5', '7'))), 't', 'what comes after has the time that it is');
is(join(' ', @{ $redis->column('out', 'payload') }), '1 2 3 4 5 6 7', 'each once, in order');
$_->quit foreach $writer, $late;
no_server_crashed($node);
done_testing();
