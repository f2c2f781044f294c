# Every rule of monitoring/alerts.yml, with shorter times, in a real Prometheus that scrapes a real exporter: what it warns of is
# brought about, and it fires; it is put right, and it resolves. No rule fires while all is well.
# matrix: M5
# ring: long
use strict;
use warnings;

use Cwd;
use File::Basename;
use IPC::Run;
use JSON::PP;
use Outbox::Faults;
use Outbox::Monitoring;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

sub found { my ($program) = @_; return grep { -x "$_/$program" } split /:/, $ENV{PATH} }
plan skip_all => 'prometheus or prometheus-sql-exporter is not here' unless found('prometheus') && found('prometheus-sql-exporter');

my $top = dirname(dirname(dirname(Cwd::abs_path(__FILE__))));
my $node = new_node(conf => "outbox.workers = 1\noutbox.max_series = 2\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', @_) }
redis_route($node, $redis, 'redis', topic => q('{event_type}'), aggregate_types => q('{order}'), on_failure => q('skip'), max_attempts => 1);
sub emit { my ($type) = @_; return sql("SELECT outbox.emit('order', 'k', '" . ($type // 'one') . "', '{}')") }
sub idle { return ok(wait_idle($node, 60), $_[0] // 'idle') }
emit();
idle();
sql('CREATE ROLE monitor LOGIN IN ROLE pg_monitor');

# --- the rules, with shorter times ---
my $rules = slurp_file("$top/monitoring/alerts.yml");
my @alerts = $rules =~ /- alert: (\w+)/g;
my %shorter = (OutboxBacklogOld => [ '> 60', '> 3' ], OutboxBacklogVeryOld => [ '> 600', '> 5' ], OutboxParkedOverdue => [ '> 60', '> 3' ], OutboxMetricsStale => [ '> 60', '> 12' ], OutboxHeldByOldTransaction => [ '> 300', '> 3' ],
	OutboxDayHeld => [ '> 86400', '> 5' ], OutboxLogLarge => [ '+ 50e9', '+ 4e6' ], OutboxPausedForgotten => [ '> 3600', '> 3' ]);
$rules =~ s/^( +)for: \S+$/$1for: 1s/mg;
$rules =~ s/\[(?:5|15|30)m\]/[20s]/g;
$rules =~ s/offset 15m/offset 20s/g;
foreach my $alert (sort keys %shorter)
{
	my ($long, $short) = @{ $shorter{$alert} };
	ok($rules =~ s/(- alert: $alert\n +expr: '[^'\n]*)\Q$long\E/$1$short/, "$alert has a time that can be shortened");
}
my $work = $node->basedir;
append_to_file("$work/rules.yml", $rules);
my $monitoring = Outbox::Monitoring->start($node, rules => "$work/rules.yml");

sub get
{
	my ($path) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'python3', '-c', 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())', $monitoring->url . "$path" ], '>', \$out, '2>', \$err);
	return eval { decode_json($out)->{data} };
}
my %fired;
sub firing { my $data = get('/api/v1/alerts') or return (); return map { $_->{labels}{alertname} } grep { $_->{state} eq 'firing' } @{ $data->{alerts} } }
sub is_firing { my ($alert) = @_; return scalar grep { $_ eq $alert } firing() }
sub fires
{
	foreach my $alert (@_)
	{
		$fired{$alert} = 1;
		ok(wait_until(sub { is_firing($alert) }, 90), "$alert fires") or diag(join ' ', firing());
	}
	return;
}
sub resolves { foreach my $alert (@_) { ok(wait_until(sub { my $data = get('/api/v1/alerts'); $data && !grep { $_->{labels}{alertname} eq $alert } @{ $data->{alerts} } }, 120), "$alert resolves") } return }
ok(wait_until(sub { my $d = get('/api/v1/query?query=outbox_events_published_total'); $d && @{ $d->{result} } > 0 }, 60), 'Prometheus has figures');
sleep 5;    # five rounds, in which no rule may fire
is(join(' ', firing()), '', 'no rule fires while all is well');

# --- a destination is down ---
sql(q(SELECT outbox.emit('order', 'later', 'one', '{}', deliver_at => clock_timestamp() + interval '8 s')));
ok(wait_for_value($node, q(SELECT count(*) FROM outbox_internal.parked WHERE state = 'scheduled'), '1', 30), 'an event comes later');
$redis->stop;
emit() foreach 1 .. 5;
fires(qw(OutboxDestinationDown OutboxBacklogOld OutboxBacklogVeryOld OutboxNotDraining OutboxParkedOverdue));
$redis->restart;
resolves(qw(OutboxDestinationDown OutboxBacklogOld OutboxBacklogVeryOld OutboxNotDraining OutboxParkedOverdue));
sql(q(CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null));
sql(q(SELECT outbox.create_route('r' || i, server => 'nowhere', aggregate_types => ARRAY[CASE i WHEN 1 THEN 'order' ELSE 'other' END]) FROM generate_series(1, 100) i));
idle();
sql(q(SELECT outbox.pause(server => 'nowhere', reason => 'test')));
emit() foreach 1 .. 20;
my $late = sub { my $data = get('/api/v1/alerts') or return ''; my %routes = map { $_->{labels}{route} => 1 } grep { $_->{labels}{alertname} eq 'OutboxBacklogOld' && $_->{state} eq 'firing' } @{ $data->{alerts} }; return join ' ', sort keys %routes };
ok(wait_until(sub { $late->() eq 'r1' }, 90), 'one destination is paused: its route that wants something is late') or diag($late->());
sleep 4;    # rounds in which another one could fire
is($late->(), 'r1', 'and none of the 99 that want nothing of it');
sql(q(SELECT outbox.resume(server => 'nowhere')));
idle();
sql(q(SELECT outbox.drop_route('r' || i) FROM generate_series(1, 100) i));
sql(q(DROP SERVER nowhere));
resolves(qw(OutboxBacklogOld OutboxRoutesWithoutFigures OutboxPausedForgotten OutboxNotDraining));

# --- a topic; a dead letter ---
$redis->command('SET', 'bad', 'no stream');
emit('bad');
fires('OutboxTopicInTrouble');
$redis->command('DEL', 'bad');
resolves('OutboxTopicInTrouble');
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', '1048576');
sql(q(ALTER SYSTEM SET outbox.max_payload_size = '4MB'; SELECT pg_reload_conf()));
sql(q(SELECT outbox.emit_text('order', 'big', 'one', repeat('x', 1200000))));
fires('OutboxDeadEvents');
resolves('OutboxDeadEvents');

# --- processes ---
# Another one each time: it is back so soon that nobody may see that there was none.
my $ended = 0;
foreach (1 .. 6)
{
	ok(wait_until(sub { my $pid = sql(q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'outbox relay')); return $pid && $pid ne $ended && sql("SELECT pg_terminate_backend($pid)") eq 't' && ($ended = $pid) }, 60), 'a relay worker is terminated');
}
fires('OutboxWorkerFlapping');
resolves('OutboxWorkerFlapping');
# One that is terminated is back at once, unless nobody starts it.
my $launcher = sql(q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'outbox launcher'));
kill STOP => $launcher;
sql(q(SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'outbox relay'));
fires('OutboxTooFewWorkers');
kill CONT => $launcher;
resolves('OutboxTooFewWorkers');
my %killed;
foreach (1 .. 6)
{
	emit();
	ok(wait_until(sub { my ($pid) = grep { !$killed{$_} } sink_pids($node); return $pid && ($killed{$pid} = kill KILL => $pid) }, 60), 'a sink process is killed');
}
fires('OutboxSinkFlapping');
resolves('OutboxSinkFlapping');
my $keeper = sql(q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'outbox keeper'));
kill STOP => $keeper;
sql('SET outbox.allow_loss = on; DROP TABLE outbox_internal.log_' . sql(q(SELECT to_char(now() AT TIME ZONE 'UTC' + interval '1 day', 'YYYYMMDD'))));
fires(qw(OutboxMetricsStale OutboxNoDayTomorrow));
kill CONT => $keeper;
resolves(qw(OutboxMetricsStale OutboxNoDayTomorrow));

# --- transactions, pauses, settings, size ---
my $psql = $node->background_psql('postgres');
$psql->query_safe("BEGIN; SELECT outbox.emit('order', 'k', 'one', '{}')");
fires(qw(OutboxHeldByOldTransaction OutboxDayHeld));
$psql->query_safe('COMMIT');
$psql->quit;
resolves(qw(OutboxHeldByOldTransaction OutboxDayHeld));
sql(q(SELECT outbox.pause(route => 'redis', topic => 'later', reason => 'test')));
fires('OutboxPausedForgotten');
sql(q(SELECT outbox.resume(route => 'redis', topic => 'later')));
resolves('OutboxPausedForgotten');
sql('ALTER SYSTEM SET outbox.enabled = off; SELECT pg_reload_conf()');
fires('OutboxDisabled');
sql('ALTER SYSTEM SET outbox.enabled = on; SELECT pg_reload_conf()');
resolves('OutboxDisabled');
sql(q(SELECT outbox.create_route('r' || i, server => 'redis', aggregate_types => '{other}') FROM generate_series(1, 3) i));
fires('OutboxRoutesWithoutFigures');
sql(q(SELECT outbox.drop_route('r' || i) FROM generate_series(1, 3) i));
resolves('OutboxRoutesWithoutFigures');
idle();
sql(q(SELECT count(outbox.emit_text('kept', i::text, 'one', repeat(md5(i::text), 20))) FROM generate_series(1, 8000) i));
fires('OutboxLogLarge');
sql(q(ALTER SYSTEM SET outbox.max_log_size = '1GB'));
sql('SELECT pg_reload_conf()');
resolves('OutboxLogLarge');
sql(q(ALTER SYSTEM SET outbox.max_log_size = '1MB'));
sql('SELECT pg_reload_conf()');
fires('OutboxLogLarge');
sql('ALTER SYSTEM RESET outbox.max_log_size');
sql('SELECT pg_reload_conf()');
idle('all of it is behind the routes');
sql('SET outbox.allow_loss = on; TRUNCATE outbox_internal.log_' . sql(q(SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'))));
resolves('OutboxLogLarge');

# --- a backlog that nobody can count, because its day is locked ---
$psql = $node->background_psql('postgres');
$psql->query_safe('BEGIN; LOCK TABLE outbox_internal.log_' . sql(q(SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'))) . ' IN ACCESS EXCLUSIVE MODE');
fires('OutboxFiguresLeftOut');
$psql->query_safe('ROLLBACK');
$psql->quit;
resolves('OutboxFiguresLeftOut');

# --- nobody may look ---
sql('REVOKE pg_monitor FROM monitor');
fires('OutboxFiguresMissing');
sql('GRANT pg_monitor TO monitor');
resolves('OutboxFiguresMissing');

# --- versions, a copy, the clock ---
sql(q(UPDATE pg_extension SET extversion = '0.1' WHERE extname = 'outbox'));
fires('OutboxVersionMismatch');
sql(q(UPDATE pg_extension SET extversion = '0.2' WHERE extname = 'outbox'));
resolves('OutboxVersionMismatch');
idle();
Outbox::Faults::shift_clock(200 * 1_000_000);
emit();
idle();
Outbox::Faults::shift_clock(0);
fires('OutboxClockAhead');
sql('SELECT outbox.reset_clock()');
resolves('OutboxClockAhead');
$node->append_conf('postgresql.conf', "outbox.instance = 'clone'\n");
$node->restart;
fires('OutboxAdoptionNeeded');
sql('SELECT outbox.adopt()');
resolves('OutboxAdoptionNeeded');
idle('and it goes on');
is(join(' ', grep { !$fired{$_} } @alerts), '', 'each rule has fired');
$monitoring->stop;
no_server_crashed($node);
done_testing();
