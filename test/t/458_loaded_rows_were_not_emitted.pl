# A dump that was restored with --disable-triggers has brought its events into the log, past the guard: doctor() does not say of them
# that they were emitted here. It says so of those that were, and adopt() sends each where it belongs. So it is where the dump's
# events are all of one transaction, too. adopt() waits for whoever has such a day locked (an autovacuum soon gives way, a VACUUM ends),
# as long as its session would wait for a lock.
# matrix: C18
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(extension => 0, conf => "outbox.lone_emit = allow\nmax_worker_processes = 24\n");
my $dump = $node->basedir . '/dump';
sub sql { return $node->safe_psql(@_) }
sub emitted { return (sql($_[0], q{SELECT detail FROM outbox.doctor() WHERE "check" = 'identity'}) =~ /stays silent\.(.*)/)[0] }

# adopt() while another session has the day locked, as VACUUM has it. What it returns.
sub adopt_once_free
{
	my ($db) = @_;
	my $day = sql($db, 'SELECT DISTINCT tableoid::regclass FROM outbox_internal.log');
	my $holder = $node->background_psql($db);
	$holder->query_safe("BEGIN; LOCK TABLE $day IN SHARE UPDATE EXCLUSIVE MODE");
	my ($code, undef, $error) = $node->psql($db, q{SET lock_timeout = '50 ms'; SELECT outbox.adopt()});
	isnt($code, 0, 'a session that waits for no lock is told so');
	like($error, qr/canceling statement due to lock timeout/, 'in the words of PostgreSQL');
	my $adopts = $node->background_psql($db);
	$adopts->query_until(qr/begun/, "\\echo begun\nSELECT outbox.adopt();\n");
	ok(wait_until(sub { sql($db, qq{SELECT EXISTS (SELECT FROM pg_locks WHERE relation = '$day'::regclass AND NOT granted)}) eq 't' }), 'another waits');
	$holder->quit;
	my $sent = $adopts->query(q{SELECT 'adopted'});
	$adopts->quit;
	return $sent =~ s/\s*adopted\s*$//r;
}

# Emits three events in the original. Two of its routes: one has had them, one not.
sub restored
{
	my ($case, @emits) = @_;
	my ($original, $copy) = ("original_$case", "copy_$case");
	sql('postgres', "CREATE DATABASE $_") foreach $original, $copy;
	sql($original, "CREATE EXTENSION outbox; CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
		SELECT outbox.create_route('main', server => 'redis', topic => 'events'), outbox.create_route('late', server => 'redis', topic => 'late')");
	sql($original, "SELECT outbox.pause('late', reason => 'has them to come')");
	$redis->command('DEL', 'events', 'late');
	sql($original, $_) foreach @emits;
	ok(wait_until(sub { sql($original, q{SELECT sum(pending) FROM outbox.lag WHERE route = 'main'}) eq '0' && $redis->xlen('events') == 3 }), "$case: the original delivers");
	$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr($original) ], 'it is dumped');
	$node->command_ok([ 'pg_restore', '--exit-on-error', '-s', '-d', $node->connstr($copy), $dump ], 'the schema is restored');
	$node->command_ok([ 'pg_restore', '-a', '--disable-triggers', '-d', $node->connstr($copy), $dump ], 'and the data, without triggers');
	is(sql($copy, q{SELECT (SELECT count(*) FROM outbox_internal.whole_log) || ' ' || (SELECT count(*) FROM outbox_internal.foreign_event)}), '3 0', 'its events are in the log');
	is(emitted($copy), '', 'nothing was emitted here');
	sql($copy, q{BEGIN; SAVEPOINT s; SELECT outbox.emit('order', 4, 'here', '{}'); COMMIT});
	is(emitted($copy), ' 1 event has been emitted here since it was restored.', 'then one is');
	sql($copy, q{SELECT outbox.emit('order', 5, 'here', '{}'), outbox.emit('order', 6, 'here', '{}')});
	is(emitted($copy), ' 3 events have been emitted here since it was restored.', 'and two more');

	$redis->command('DEL', 'events', 'late');
	is(adopt_once_free($copy), '3', 'adopted, what the one route lacked is to be sent');
	sql($copy, q{SELECT outbox.resume('late')});
	is(sql($copy, q{SELECT outbox.wait_until_idle('60 s')}), 't', 'the copy delivers');
	is(join(' ', map { $_->{type} } @{ $redis->entries('events') }), 'here here here', 'what was emitted here, and nothing again');
	is(join(' ', map { $_->{type} } @{ $redis->entries('late') }), 'made made made here here here', 'and to the other route what it lacked');
	sql('postgres', "DROP DATABASE $_ WITH (FORCE)") foreach $original, $copy;
}
restored('transactions', map { "SELECT outbox.emit('order', $_, 'made', '{}')" } 1 .. 3);
restored('transaction', q{SELECT count(outbox.emit('order', i, 'made', '{}')) FROM generate_series(1, 3) i});
no_server_crashed($node);
done_testing();
