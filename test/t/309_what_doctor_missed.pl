# A worker that was stopped, a table that is locked whichever it is, a Redis that has lost what it had: doctor() and
# wait_until_idle() know, at once or soon, and are silent when it is over.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 2\n");
my $redis = Outbox::Redis->start(conf => [ 'save ""', 'appendonly no' ]);
sub sql { return $node->safe_psql('postgres', @_) }
sub told { my ($check) = @_; return sql("SET statement_timeout = '20s'; SELECT status, detail, hint FROM outbox.doctor() WHERE \"check\" = '$check' AND status <> 'ok' ORDER BY detail DESC") }
redis_route($node, $redis, 'r', topic => q('s'), lanes => 4);
sql(q(SELECT count(outbox.emit('a', n, 'e', '{}')) FROM generate_series(1, 20) n));
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.worker WHERE kind = 'relay' AND lanes > 0), '2', 60) && wait_idle($node), 'two workers have lanes');

# Locked, whatever it is.
foreach my $table ('outbox.replay', 'outbox_internal.emit_right', 'outbox_internal.log_spare', 'outbox_internal.foreign_event')
{
	my $holder = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
	$holder->query_safe("BEGIN; LOCK TABLE $table IN ACCESS EXCLUSIVE MODE");
	my $pid = $holder->query_safe('SELECT pg_backend_pid()');
	like(told('locks'), qr/^problem\|\Q$table\E is locked by process $pid .*pg_terminate_backend\($pid\)/, "doctor() says that $table is locked, and by whom");
	$holder->query_safe('COMMIT');
	$holder->quit;
}
is(told('locks'), '', 'and nothing when they are not');

# Stopped.
my ($relay) = split /\n/, sql(q(SELECT pid FROM outbox.worker WHERE kind = 'relay' ORDER BY pid));
my $keeper = sql(q(SELECT pid FROM outbox.worker WHERE kind = 'keeper'));
is(told('standstill'), '', 'workers do their turns');
Outbox::Faults::put('doctor.stands', 5_000_000);
is(told('standstill'), '', 'whatever they are busy with');
kill 'STOP', $relay, $keeper;
ok(wait_until(sub { my @told = split /\n/, told('standstill'); @told == 2 }, 30), 'doctor() sees two that do nothing');
like(told('standstill'), qr/^problem\|Relay worker with process $relay is there, and has done nothing since .* its lanes stand still\.\|.*kill -CONT.*pg_terminate_backend\($relay\).*\n.*Keeper with process $keeper/s, 'and which');
is(sql('SELECT outbox.doctor_ok()'), 'f', 'all is not well');
kill 'CONT', $relay, $keeper;
ok(wait_until(sub { told('standstill') eq '' }, 30), 'they go on');
my $launcher = sql(q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'outbox launcher'));
Outbox::Faults::put('doctor.launcher_stands', 15_000_000);    # it looks around every ten seconds
is(told('launcher'), '', 'nor is anything said of the launcher');
kill 'STOP', $launcher;
ok(wait_until(sub { told('launcher') =~ /^problem\|The launcher, process $launcher, is there, and has done nothing since .*\|.*pg_terminate_backend\($launcher\)/ }, 30), 'until it is stopped');
kill 'CONT', $launcher;
ok(wait_until(sub { told('launcher') eq '' }, 30), 'it goes on');

# Redis comes back without what it had.
my $before = $redis->xlen('s');
sql(q(SELECT count(outbox.emit('a', n, 'e', '{}')) FROM generate_series(1, 30) n));
ok(wait_idle($node) && $redis->xlen('s') == $before + 30, 'delivered');
$redis->kill9;
$redis->run('start', $redis->{dir}, $redis->{port});
my ($known, $wrong) = (0, 0);
my $ask = q((SELECT count(*) FROM outbox.destination WHERE error_code = 'LOST_WRITES' AND state <> 'closed'));
my $end = time + 30;
while (time < $end && $redis->xlen('s') < $before + 30)
{
	my ($lost, $idle, $still) = split /[|]/, sql("SELECT $ask, outbox.wait_until_idle('0 s'), $ask");
	next if !$lost || !$still;
	$known++;
	$wrong++ if $idle eq 't';
}
ok($redis->xlen('s') >= $before + 30, 'what it had is sent again');
cmp_ok($known, '>', 0, 'a worker knew of it for a while');
is($wrong, 0, 'and wait_until_idle() was not true meanwhile');
ok(wait_idle($node), 'afterwards it is');

no_server_crashed($node);
$node->stop;
done_testing();
