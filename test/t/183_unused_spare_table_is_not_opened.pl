# While nothing was written into the spare table, a lock on it holds no lane up. What is written into it is read all the
# same: by whichever worker looks at whichever moment, prepared, and after a crash.
# matrix: R5 R45
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\nautovacuum = off\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'a', topic => q('a'));
sub sql { return $node->safe_psql('postgres', $_[0]) }

# Payloads, by what is to come by now; a crash may send some again.
my $number = 0;
my %wanted;
sub emit
{
	my ($before, $after) = @_;
	$number++;
	sql(($before // '') . "SELECT outbox.emit_text('a', 'k', 'e', '$number');" . ($after // ''));
	return $wanted{$number} = 1;
}
sub came { return { map { $_ => 1 } @{ $redis->column('a', 'payload') } } }
sub all_come { my ($what) = @_; return ok(wait_until(sub { my $came = came(); !grep { !$came->{$_} } keys %wanted }, 30), $what) }

# With the table of the day under another name events go to the spare table.
my $today = sql(q{SELECT 'log_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')});
sub away { return sql("SET outbox.allow_loss = on; ALTER TABLE outbox_internal.$today RENAME TO away") }
sub back { return sql("SET outbox.allow_loss = on; ALTER TABLE outbox_internal.away RENAME TO $today") }
sub in_spare { return sql('SELECT count(*) FROM outbox_internal.log_spare') }
sub psql_started
{
	my ($query) = @_;
	return IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-c', $query ], '>', \my $out, '2>', \my $err);
}

# Locked in the strongest mode, for long.
sub locked_holds_up_nobody
{
	my ($when) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 1);
	$session->query_safe('BEGIN; LOCK TABLE outbox_internal.log_spare IN ACCESS EXCLUSIVE MODE');
	foreach (1 .. 5) { emit(); all_come("an event comes while the spare table is locked, $when") }
	$session->query_safe('COMMIT');
	$session->quit;
	return;
}

emit();
all_come('a first event');
locked_holds_up_nobody('which nobody has used');

# A worker has looked at the empty table and has not noted that yet; a session writes into it and commits.
away();
Outbox::Faults::arm('spare.looked', 'wait');
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'outbox relay'});
ok(Outbox::Faults::await_waiting('spare.looked'), 'a worker has looked');
emit();
is(in_spare(), 1, 'the event is in the spare table');
Outbox::Faults::release('spare.looked');
all_come('it comes');
back();

# Emptied, it is as it was.
sql('SET outbox.allow_loss = on; TRUNCATE outbox_internal.log_spare');
emit();
all_come('events go on');
locked_holds_up_nobody('which is empty again');

# A session has it open, and writes after a worker has found it empty.
away();
Outbox::Faults::arm('spare.opened', 'wait');
my $late = ++$number;
my $writer = psql_started("SELECT outbox.emit_text('a', 'k', 'e', '$late')");
ok(Outbox::Faults::await_waiting('spare.opened'), 'a session is about to write into it');
back();
foreach (1 .. 3) { emit(); all_come('others go on') }
Outbox::Faults::release('spare.opened');
$writer->finish;
is(in_spare(), 1, 'he has written');
$wanted{$late} = 1;
all_come('and that comes, too');
is($redis->column('a', 'payload')->[-1], $late, 'as the last one');

# Prepared, with the number of the server's writes back at zero and the worker new.
sql('SET outbox.allow_loss = on; TRUNCATE outbox_internal.log_spare');
away();
emit('BEGIN;', "PREPARE TRANSACTION 'p'");
delete $wanted{ my $prepared = $number };
back();
$node->stop('immediate');
$node->start;
foreach (1 .. 3) { emit(); all_come('after a crash events come') }
sql(q{COMMIT PREPARED 'p'});
$wanted{$prepared} = 1;
all_come('and what was prepared before it');
is(in_spare(), 1, 'from the spare table');

# Savepoints: what was rolled back is nothing, what was not comes.
away();
emit("BEGIN; SAVEPOINT s; SELECT outbox.emit_text('a', 'k', 'e', 'never'); ROLLBACK TO s;", 'COMMIT');
back();
all_come('the part that was not rolled back comes');
is_deeply(came(), \%wanted, 'and nothing else');
no_server_crashed($node);
done_testing();
