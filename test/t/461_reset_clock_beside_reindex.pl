# reset_clock() deletes positions that it has read before. Who has their tables locked as REINDEX does waits for it, and it for him,
# unless it locks for that first; and emitters, who wait for the clock that it holds, wait for neither.
# matrix: C8
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $emit = q(SELECT outbox.emit('o', 'k', 'e', '{}') IS NOT NULL);
sub emits { return is(sql("SET statement_timeout = '30 s'; $emit"), 't', $_[0]) }
sql(q(CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'nowhere')));
sql($emit);
Outbox::Faults::shift_clock(3_600 * 1_000_000);
ok($node->poll_query_until('postgres', q(SELECT outbox.emit('o', 'k', 'e', '{}') IS NOT NULL AND max(created_at) > now() + interval '50 minutes' FROM outbox_internal.log)), 'the clock is ahead');
Outbox::Faults::shift_clock(0);
ok(wait_idle($node), 'all is delivered');
my @tables = split /\n/, sql(q(SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'outbox_internal.progress'::regclass ORDER BY inhrelid));
my $of_tables = q(l.relation IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'outbox_internal.progress'::regclass));
my $of_indexes = q(l.relation IN (SELECT i.indexrelid FROM pg_index i JOIN pg_inherits h ON h.inhrelid = i.indrelid WHERE h.inhparent = 'outbox_internal.progress'::regclass));

my $locker = $node->background_psql('postgres', on_error_stop => 0, timeout => 600);
my $caller = $node->background_psql('postgres', on_error_stop => 0, timeout => 600);
my $pid = $caller->query_safe('SELECT pg_backend_pid()');
$caller->query_safe('SET client_min_messages = warning');  # not what it says of consumers
$locker->query_safe('BEGIN');
$locker->query_safe("LOCK TABLE $_ IN SHARE MODE") foreach @tables;
$caller->{stdin} .= "SELECT outbox.reset_clock(force => true) > interval '50 minutes' AS done;\n\\echo over\n";
$caller->{run}->pump_nb;
ok(wait_for_value($node, "SELECT count(*) FROM pg_locks l WHERE l.pid = $pid AND NOT l.granted AND l.mode = 'RowExclusiveLock' AND $of_tables", 1, 60), 'reset_clock() waits for a table of positions');
is(sql("SELECT count(*) FROM pg_locks l WHERE l.pid = $pid AND $of_indexes"), '0', 'and has none of their indexes');
emits('nobody who emits waits for it meanwhile');
$locker->query("REINDEX TABLE $_") foreach @tables;
is($locker->{stderr}, '', 'they are indexed anew');
$locker->query('COMMIT');
$caller->{run}->pump until $caller->{stdout} =~ /^over$/m;
is($caller->{stderr}, '', 'it is not ended for a deadlock');
like($caller->{stdout}, qr/^t$/m, 'and the clock is put back');
emits('events are emitted after it');
ok(wait_idle($node), 'and delivered');

# Whoever has the table as a whole is not waited for with the clock held.
Outbox::Faults::shift_clock(3_600 * 1_000_000);
ok($node->poll_query_until('postgres', q(SELECT outbox.emit('o', 'k', 'e', '{}') IS NOT NULL AND max(created_at) > now() + interval '50 minutes' FROM outbox_internal.log)), 'the clock is ahead again');
Outbox::Faults::shift_clock(0);
ok(wait_idle($node), 'all is delivered again');
Outbox::Faults::put('reset.sooner', 9_000_000);
$locker->query_safe('BEGIN');
$locker->query_safe('LOCK TABLE ONLY outbox_internal.progress IN SHARE MODE');
my (undef, undef, $said) = $node->psql('postgres', q(SET statement_timeout = '60 s'; SELECT outbox.reset_clock(force => true)));
like($said, qr/cannot put the clock of events back now\n.*DETAIL:  Somebody has outbox_internal\.progress locked\./, 'it says who keeps it from that');
emits('emitters go on');
$locker->query_safe('COMMIT');
is(sql(q(SELECT outbox.reset_clock(force => true) > interval '50 minutes')), 't', 'then it is put back');
$locker->quit;
$caller->quit;
no_server_crashed($node);
done_testing();
