# A background process that is terminated while it writes a line into the server's log leaves in good order: SIGTERM cancels the
# transaction that runs, and nothing between two of them.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.max_databases = 1\noutbox.max_destinations = 16\noutbox.workers = 1\n");
sub sql { return $node->safe_psql('postgres', @_) }
sub pid_of { return sql("SELECT pid FROM pg_stat_activity WHERE backend_type = '$_[0]'") }
sub add_destination { return sql("CREATE SERVER d$_[0] FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r$_[0]', server => 'd$_[0]')") }

# The process writes a line when $cause has been called; it is terminated there.
sub terminated_at_a_line
{
	my ($type, $cause, $line, $exit_code) = @_;
	ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = '$type'", 1), "$type: runs");
	my $pid = pid_of($type);
	my $from = -s $node->logfile;
	Outbox::Faults::arm('log.line', 'wait');
	$cause->();
	ok(Outbox::Faults::await_waiting('log.line', 90), "$type: is about to write a line");
	kill TERM => $pid;
	Outbox::Faults::release('log.line');
	ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = '$type' AND pid <> $pid", 1), "$type: left, and is back");
	my $said = substr(slurp_file($node->logfile), $from);
	like($said, qr/\[$pid\].*$line/, "$type: its line is written");
	unlike($said, qr/\[$pid\].*(?:ERROR|FATAL)/, "$type: no error of its own");
	my ($code) = $said =~ /\(PID $pid\) exited with exit code (\d+)/;
	is($code // 0, $exit_code, "$type: it left as one that was asked to");
	return;
}

# More destinations than there are places for figures of.
add_destination($_) foreach 1 .. 16;
sql(q(SELECT outbox.emit('order', 1, 'order.created', '{}')));
ok(wait_idle($node), 'sixteen destinations are used');
terminated_at_a_line('outbox relay', sub { add_destination(17) }, 'not every destination has figures of its own', 0);
sql(q(SELECT outbox.emit('order', 1, 'order.created', '{}')));
ok(wait_idle($node), 'its successor delivers');

# A table that it cannot look at.
my $locker = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$locker->query_safe('BEGIN; LOCK TABLE outbox.replay IN ACCESS EXCLUSIVE MODE');
terminated_at_a_line('outbox keeper', sub { sql('SELECT pg_reload_conf()') }, 'outbox keeper, interrupted replays: canceling statement due to lock timeout', 0);
$locker->query_safe('COMMIT');
$locker->quit;

# One database more than there are places for. (The launcher asks to be started again: exit code 1.)
terminated_at_a_line('outbox launcher', sub { sql('CREATE DATABASE another') }, 'outbox cannot look after all databases', 1);

# And where it waits for a lock: that it leaves is no error either.
ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox launcher'), 1), 'the launcher runs');
my $pid = pid_of('outbox launcher');
my $from = -s $node->logfile;
$locker = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$locker->query_safe('BEGIN; LOCK TABLE pg_database IN ACCESS EXCLUSIVE MODE');
ok(wait_until(sub { $locker->query_safe("SELECT count(*) FROM pg_locks WHERE pid = $pid AND NOT granted") eq '1' }, 90), 'the launcher waits for a lock');
kill TERM => $pid;
ok(wait_until(sub { slurp_file($node->logfile) =~ /\(PID $pid\) exited with exit code 1/ }), 'it leaves at once');
unlike(substr(slurp_file($node->logfile), $from), qr/\[$pid\].*(?:ERROR|FATAL)/, 'no error of its own');
$locker->query_safe('COMMIT');
$locker->quit;

no_server_crashed($node);
done_testing();
