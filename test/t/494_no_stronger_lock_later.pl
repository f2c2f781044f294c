# A function that will write to a table, or empty it, locks it so before it reads it. Else somebody who reindexes the table in a
# transaction that has it locked already, and waits for the index that was read, and the function, which waits for the table, wait
# for each other.
# matrix: C5 C8
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
$node->safe_psql('postgres', q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'n'); SELECT outbox.create_route('b', server => 'n');
	SELECT outbox.emit('o', i::text, 'e', '{}'::jsonb) FROM generate_series(1, 20) i));
ok(wait_idle($node), 'something is delivered');
$node->safe_psql('postgres', q(SELECT outbox.pause('b', reason => 'to have a backlog')));
$node->safe_psql('postgres', q(SELECT outbox.emit('o', i::text, 'e', '{}'::jsonb) FROM generate_series(1, 20) i; SELECT outbox.receive_next('c', 's', 1)));
my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'dumped');

# A statement, called while somebody has the table locked as REINDEX has it, waits for that without having any of its indexes.
sub call_beside_reindex
{
	my ($database, $table, $statement) = @_;
	my $locker = $node->background_psql($database, on_error_stop => 0, timeout => 600);
	my $caller = $node->background_psql($database, on_error_stop => 0, timeout => 600);
	my $pid = $caller->query_safe('SELECT pg_backend_pid()');
	my $has = "SELECT count(*) FROM pg_locks l WHERE l.pid = $pid AND l.locktype = 'relation' AND";
	$locker->query_safe("BEGIN; LOCK TABLE ONLY $table IN SHARE MODE");
	$caller->{stdin} .= "SET client_min_messages = error; BEGIN; SET LOCAL outbox.allow_loss = on; $statement; ROLLBACK;\n\\echo over\n";
	$caller->{run}->pump_nb;
	my $waits = wait_until(sub { $node->safe_psql($database, "$has NOT l.granted AND l.relation = '$table'::regclass") == 1 || $caller->{run}->pump_nb && $caller->{stdout} =~ /^over$/m }, 60);
	ok($waits && $caller->{stdout} !~ /^over$/m, "$statement waits for $table");
	is($node->safe_psql($database, "$has l.relation IN (SELECT indexrelid FROM pg_index WHERE indrelid = '$table'::regclass)"), '0', 'and has none of its indexes');
	$locker->query("REINDEX TABLE $table; COMMIT");
	is($locker->{stderr}, '', 'it can be indexed anew');
	$caller->{run}->pump until $caller->{stdout} =~ /^over$/m;
	is($caller->{stderr}, '', 'then it is done');
	$_->quit foreach $locker, $caller;
	return;
}

call_beside_reindex('postgres', 'outbox_internal.inbox_stream', q(SELECT outbox.seek_stream('c', 's', 5)));
call_beside_reindex('postgres', "outbox_internal.$_", q(DELETE FROM outbox.route WHERE name = 'b')) foreach qw(lane parked);
call_beside_reindex('postgres', 'outbox.pause', q(DELETE FROM outbox.route WHERE name = 'b'));

$node->safe_psql('template1', 'CREATE DATABASE fresh TEMPLATE template0');
$node->safe_psql('fresh', 'CREATE EXTENSION outbox; CREATE SERVER n FOREIGN DATA WRAPPER outbox_null');
call_beside_reindex('fresh', 'outbox_internal.identity', q(SELECT outbox.create_route('r', server => 'n')));

my $position = $node->safe_psql('postgres', q(SELECT tableoid::regclass FROM outbox_internal.progress LIMIT 1));
foreach my $copy (qw(restored used))
{
	$node->safe_psql('template1', "CREATE DATABASE $copy TEMPLATE template0");
	$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr($copy), $dump ], "$copy from the dump");
	# Whether the positions of the dump are all that there are: then their tables are emptied as a whole.
	$node->safe_psql($copy, q(SELECT outbox.create_route('own', server => 'n'))) if $copy eq 'used';
	call_beside_reindex($copy, $_, 'SELECT outbox.adopt()') foreach qw(outbox_internal.identity outbox_internal.adopted outbox_internal.foreign_event), $position;
	is($node->safe_psql($copy, 'SELECT outbox.adopt() > 0'), 't', 'it is adopted');
}
no_server_crashed($node);
done_testing();
