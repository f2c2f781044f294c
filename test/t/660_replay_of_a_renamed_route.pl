# A route is given another name (UPDATE outbox.route SET name) while a replay of it is sent, while one is copied, and while one is
# interrupted: progress goes by the route, not by its name, and what is copied and what goes on do, too; also where another route
# has the old name since.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql(q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'n', lanes => 2)));
sql(q(SELECT count(outbox.emit('o', i::text, 'e', '1')) FROM generate_series(1, 2000) i));
ok(wait_idle($node), 'delivered');

# While it is sent: slowly, so that there is something left.
sql(q(CALL outbox.replay(since => '-infinity', route => 'r', per_second => 1, dry_run => false)));
sub progress { return sql(q(SELECT route || ' ' || phase FROM outbox.pg_stat_progress_outbox WHERE command = 'replay')) }
ok(wait_until(sub { progress() eq 'r sending' }, 60), 'it is sent');
sql(q(UPDATE outbox.route SET name = 'r2' WHERE name = 'r'));
ok(wait_until(sub { progress() eq 'r2 sending' }, 60), 'also under another name') or diag progress();
sql(q(SELECT outbox.create_route('r', server => 'n')));
ok(wait_until(sub { progress() eq 'r2 sending' }, 60), 'and when another one has the old name') or diag progress();
cmp_ok(sql(q(SELECT outbox.cancel_replay(1))), '>', 0, 'cancelled');

# While it is copied: it is begun, and waits for the table that it copies to.
my $locker = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
my $waits = q(SELECT count(*) FROM pg_locks l WHERE NOT l.granted AND l.relation = 'outbox_internal.parked'::regclass
	AND EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = l.pid AND a.query LIKE 'CALL outbox.replay%'));
sub replay
{
	my ($arguments) = @_;
	my %call = (out => '');
	$call{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "CALL outbox.replay($arguments, dry_run => false)" ],
		'<', \undef, '>&', \$call{out}, IPC::Run::timeout(180));
	return \%call;
}
$locker->query_safe(q(BEGIN; LOCK TABLE outbox_internal.parked IN SHARE MODE));
my $call = replay(q(since => '-infinity', route => 'r2', per_second => NULL));
ok(wait_for_value($node, $waits, '1', 60), 'it waits');
$locker->query_safe(q(UPDATE outbox.route SET name = 'r3' WHERE name = 'r2'; COMMIT));
$call->{run}->finish;
like($call->{out}, qr/2000 events scheduled/, 'it is copied') or diag $call->{out};
ok(wait_for_value($node, q(SELECT count(*) FROM outbox_internal.parked), '0', 120), 'and sent');

# Interrupted: the call is ended.
$locker->query_safe(q(BEGIN; LOCK TABLE outbox_internal.parked IN SHARE MODE));
$call = replay(q(since => '-infinity', route => 'r3', per_second => NULL));
ok(wait_for_value($node, $waits, '1', 60), 'it waits');
is(sql(q(SELECT count(*) FROM outbox.replay WHERE number = 3)), '1', 'and is begun');
sql(q(SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'CALL outbox.replay%'));
$call->{run}->finish;
$locker->query_safe(q(COMMIT));
$locker->quit;
ok(wait_for_value($node, q(SELECT state FROM outbox.replay WHERE number = 3), 'interrupted', 120), 'interrupted');
sql(q(UPDATE outbox.route SET name = 'r4' WHERE name = 'r3'));
like(sql(q(SELECT route || ' ' || phase FROM outbox.pg_stat_progress_outbox WHERE command = 'replay')), qr/^r4 interrupted$/, 'it shows under the name of now');
$call = replay(q(number => 3));
$call->{run}->finish;
like($call->{out}, qr/2000 events scheduled/, 'it goes on') or diag $call->{out};
ok(wait_for_value($node, q(SELECT count(*) FROM outbox_internal.parked), '0', 120), 'and is sent');

no_server_crashed($node);
$node->stop;
done_testing();
