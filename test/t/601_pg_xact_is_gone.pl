# Transactions were prepared, emitted and have ended, and when it is asked how, pg_xact cannot be read, or has been truncated past
# them: later ones can be prepared all the same, metrics() answers, and the keeper goes on, also after a restart with what was saved.
# matrix: M1
use strict;
use warnings;

use File::Copy;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\nautovacuum = off\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('all'));
sub sql { return $node->safe_psql('postgres', @_) }
# A value, or the error.
sub answer
{
	my ($query) = @_;
	my ($out, $err) = ('', '');
	my ($status) = $node->psql('postgres', $query, stdout => \$out, stderr => \$err);
	return $status == 0 ? $out : $err =~ /(ERROR: .*)/ ? $1 : $err;
}
sub emitted { return answer(q(SELECT value FROM outbox.metrics() WHERE name = 'outbox_events_emitted_total')) }
sub prepare { my ($name, $events) = @_; return answer("BEGIN; SELECT count(outbox.emit_text('t', '$name', 'x', i::text)) FROM generate_series(1, $events) i; PREPARE TRANSACTION '$name'") }
sub freeze
{
	my (@databases) = @_;
	$node->safe_psql($_, 'VACUUM FREEZE') foreach @databases;
	return;
}
my $first = $node->data_dir . '/pg_xact/0000';
my $stat = $node->data_dir . '/pg_stat/outbox.stat';
# Begins with the figures of when both were prepared.
sub start_with_saved
{
	my ($before) = @_;
	$node->stop;
	copy("$stat.prepared", $stat) or die $!;
	$before->() if $before;
	$node->start;
	return;
}
sub all_goes_on
{
	my ($name, $figure) = @_;
	is(prepare($name, 1), '1', "$name: a transaction is prepared");
	is(emitted(), $figure, "$name: metrics() answers");
	answer("ROLLBACK PREPARED '$name'");
	upkeep($node);
	sql(q(SELECT outbox.emit_text('t', 'k', 'x', 'later')));
	ok(wait_idle($node), "$name: events go on");
	return;
}

sql(q(SELECT outbox.emit_text('t', 'k', 'x', 'first')));
is(prepare('kept', 10), '10', 'one is prepared');
is(prepare('dropped', 100), '100', 'another, too');
is(emitted(), 1, 'they do not count yet');

# --- transaction ids go on three files of pg_xact later ---
$node->stop;
copy($stat, "$stat.prepared") or die $!;
{
	open my $file, '>', $node->data_dir . '/pg_xact/0003' or die $!;
	print $file "\0" x (256 * 1024);
	close $file;
}
command_ok([ 'pg_resetwal', '-f', '-x', 3 * 2**20 + 100, '-D', $node->data_dir ], 'transaction ids go on later');
$node->start;
sql(q(COMMIT PREPARED 'kept'));
sql(q(ROLLBACK PREPARED 'dropped'));
ok(wait_until(sub { $redis->xlen('all') == 11 }, 60), 'what is committed arrives');
is(emitted(), 11, 'and is counted');

# --- pg_xact cannot be read: nothing else asks it for ids of that file once rows are frozen ---
freeze('postgres');
start_with_saved(sub { rename $first, "$first.away" or die $! });
all_goes_on('unreadable', 1);
rename "$first.away", $first or die $!;
is(emitted(), 12, 'what could not be read is counted when it can be');

# --- nor is it there ---
sql(q(ALTER DATABASE template0 ALLOW_CONNECTIONS true));
freeze(qw(template0 template1 postgres));
sql(q(ALTER DATABASE template0 ALLOW_CONNECTIONS false));
ok(!-e $first, 'pg_xact is truncated');
start_with_saved();
all_goes_on('truncated', 1);
is(emitted(), 2, 'what nobody knows of is not counted, as if it had been rolled back');
is(prepare('last', 3), '3', 'a last one');
$node->restart;
sql(q(COMMIT PREPARED 'last'));
is(emitted(), 5, 'is counted');
unlike(slurp_file($node->logfile), qr/could not access status of transaction/, 'neither the keeper nor anybody else had an error');
ok(wait_idle($node), 'idle');
no_server_crashed($node);
done_testing();
