# Every fault point in the sources (src/base/fault_point.h) is crashed once, in the middle of a load, and afterwards
# nothing is lost, nothing is made up and no key is out of order. Points are found by themselves: one that this test
# cannot bring about fails it.
#
# SIGKILL in a process of the server makes the postmaster restart all sessions: that is PostgreSQL's, and stated here. A
# sink process is none of the server's: at its points no session may notice anything.
# matrix: A1 A1s A3 T2
# ring: long
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Ledger;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $points = Outbox::Faults::all_points();
cmp_ok(scalar keys %$points, '>', 20, 'there are fault points');

my $node = new_node(conf => "restart_after_crash = on\noutbox.sort_mem = '256kB'\noutbox.retention = '2d'\nautovacuum = off\n");
my $redis = Outbox::Redis->start;
my $kafka = Outbox::Kafka->start_any;
$kafka->create_topic('ledger', 2);
Outbox::Ledger::install($node);
my $types = q('{order}');
redis_route($node, $redis, 'redis', topic => q('ledger'), lanes => 2, aggregate_types => $types);
kafka_route($node, $kafka, 'kafka', topic => q('ledger'), aggregate_types => $types);
# One whose stream is of another type now and then: it leaves the lane, and comes back.
$node->safe_psql('postgres', q(SELECT outbox.create_route('side', server => 'redis', topic => 'side', aggregate_types => '{side}')));
# Its Redis forgets everything now and then; what it had is sent again.
my $forgetful = Outbox::Redis->start;
redis_route($node, $forgetful, 'forgetful', topic => q('forgetful'), aggregate_types => q('{forgetful}'));
# Its events have no legal topic: they are parked.
kafka_route($node, $kafka, 'strange', aggregate_types => q('{strange}'), topic => q('strange.{event_type}'));

# Each of its events is a line of the server's log.
$node->safe_psql('postgres', q(CREATE SERVER lines FOREIGN DATA WRAPPER outbox_log;
	SELECT outbox.create_route('lines', server => 'lines', topic => 'lines', aggregate_types => '{line}')));

# Statements that may fail: whatever server process they ask is killed now and then (and then psql() dies).
sub try_sql
{
	my ($sql) = @_;
	my ($status, $out) = eval { $node->psql('postgres', $sql) };
	return defined $status && $status == 0 ? $out : undef;
}

my $shift = 0;

# A day table of long ago with a row that no route wants.
# Another day each time: what a process has seen of one that is there already, it does not look at again.
my $old_days = 0;
sub old_table
{
	my ($kind, $columns, $row) = @_;
	my @days = map { my @date = gmtime(1_577_836_800 + 86_400 * $_); sprintf('%d-%02d-%02d', $date[5] + 1900, $date[4] + 1, $date[3]) }
	  $old_days, $old_days + 1;
	$old_days++;
	my $name = $kind . '_' . $days[0] =~ s/-//gr;
	$row =~ s/2020-01-01/$days[0]/;
	try_sql("BEGIN; SET LOCAL outbox.allow_loss = on; CREATE TABLE outbox_internal.$name (LIKE outbox_internal.$kind); CREATE INDEX ON outbox_internal.$name ($columns);
		INSERT INTO outbox_internal.$name $row;
		ALTER TABLE outbox_internal.$kind ATTACH PARTITION outbox_internal.$name
		  FOR VALUES FROM ('$days[0] 00:00+00') TO ('$days[1] 00:00+00'); COMMIT");
	return;
}

# What makes rare points come about, by the beginning of their names. Whatever is not named needs no more than events.
my %how = (
	'claim.' => \&terminate_relays,
	'release.' => \&terminate_relays,
	'load.' => \&terminate_relays,
	'sides.' => \&terminate_relays,
	'relay.' => \&terminate_relays,
	'sink.start' => \&terminate_relays,
	'keeper.start' => sub { terminate('outbox keeper') },
	'lanes.' => sub
	{
		try_sql("SELECT outbox.alter_route('redis', lanes => 5 - lanes) FROM outbox.route WHERE name = 'redis' AND lanes_wanted IS NULL");
	},
	'daytable.' => sub
	{
		my $table = try_sql(q(SELECT format('DROP TABLE %s', max(inhrelid::regclass::text)) FROM pg_inherits
			WHERE inhparent = 'outbox_internal.tick'::regclass));
		try_sql("SET outbox.allow_loss = on; $table") if $table;
	},
	'drop.progress.' => \&old_progress,
	'carry.' => \&old_progress,
	'drop.tick.' => sub { old_table('tick', 'at', "VALUES ('2020-01-01 12:00+00', '8:8:')") },
	'drop.' => sub { old_log(); every_route() },
	'log_table.' => sub { old_log(); every_route() },
	'log.' => \&log_line,
	'spare.' => \&spare,
	'adopt.' => sub
	{
		# (some, and one at a time: after the last step it is over)
		Outbox::Faults::put('adopt.rows', 1);
		try_sql(q(INSERT INTO outbox_internal.log (created_at, id, xid, aggregate_type, aggregate_id, event_type, payload)
			SELECT now(), gen_random_uuid(), '3', 'nobody', 'k', 'x', '1' FROM generate_series(1, 3)));
		try_sql(q(SET outbox.allow_loss = on; INSERT INTO outbox_internal.adoption (begun_at, home, phase, first, starts) VALUES (clock_timestamp(), outbox_internal.home(), 'pending', 3, '{}')
			ON CONFLICT DO NOTHING));
	},
	'chunk.' => sub { try_sql('SELECT business(100)') },
	'durable.' => sub { try_sql("SET synchronous_commit = off; SELECT business(2)") },
	'ceiling.keep' => sub { },  # of a clock that jumps each time the sessions raise it themselves
	'ceiling.' => sub { Outbox::Faults::shift_clock($shift += 20_000_000) },
	'tick.' => sub
	{
		$redis->pause;
		foreach (1 .. 8) { try_sql('SELECT business(1)'); sleep 0.3 }
		$redis->cont;
	},
	'forget.' => sub { try_sql(q(CALL outbox.forget('nobody', 'k', undelivered => true, dry_run => false))) },
	'wait_until_idle.' => \&wait_beside_a_pause,
	'emit.many.' => sub { try_sql("SELECT outbox.emit_many('nobody', '{a,b}', 'x', '{1,2}')") },
	'config.' => sub { try_sql(q(SELECT outbox.alter_route('strange', max_attempts => 1 + max_attempts % 9) FROM outbox.route WHERE name = 'strange')) },
	'once.' => \&same_key_twice,
	'retry.' => \&refused,
	'parked.park.' => \&refused,
	'server_check.' => \&redis_forgets,
	'rewind.' => \&redis_forgets,
	'fork.' => \&side,
	'rejoin.' => \&side,
	'parked.' => sub { refused(); try_sql("SELECT outbox.retry(id, 'strange', 'again') FROM outbox.dead_letter LIMIT 3") },
);

# Of a lane that does not read it is counted what it has still to deliver.
sub wait_beside_a_pause
{
	try_sql(q(SELECT outbox.pause(route => 'side', reason => 'test')));
	try_sql(q(SELECT outbox.wait_until_idle('2 s')));
	for (1 .. 500) { last if defined try_sql(q(SELECT outbox.resume(route => 'side'))); sleep 0.02 }
	return;
}
sub old_log { return old_table('log', 'xid', "(created_at, id, xid, aggregate_type, event_type)
	VALUES ('2020-01-01 12:00+00', gen_random_uuid(), pg_current_xact_id(), 't', 'old')") }
sub old_progress { return old_table('progress', 'route_id, lane, at', "(at, route_id, lane, side, window_from)
	SELECT '2020-01-01 12:00+00', route_id, lane, 0, '5:5:' FROM outbox_internal.lane LIMIT 1") }
# A table is dropped when the saved position of every lane is behind it, and a lane that delivers nothing saves its own twice
# a minute only.
sub log_line { return try_sql(q(SELECT outbox.emit_text('line', 1, 'x', 'x'))) }
sub every_route { refused(); log_line(); return try_sql("SELECT count(outbox.emit_text('side', i, 'x', 'x')) FROM generate_series(1, 3) i") }
# The table of the day has another name for a moment: what is emitted goes to the spare table.
sub spare
{
	my $today = try_sql(q(SELECT 'log_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'))) // return;
	try_sql("SET outbox.allow_loss = on; ALTER TABLE outbox_internal.$today RENAME TO away");
	try_sql(q(SELECT outbox.emit('nobody', 'k', 'x', '1')));
	for (1 .. 500) { last if defined try_sql("SET outbox.allow_loss = on; ALTER TABLE IF EXISTS outbox.away RENAME TO $today"); sleep 0.02 }
	return;
}
sub side
{
	$redis->forget->command('DEL', 'side');
	$redis->command('SET', 'side', 'not a stream');
	try_sql("SELECT count(outbox.emit_text('side', i % 3, 'x', 'x')) FROM generate_series(1, 20) i");
	for (1 .. 30) { last if (try_sql('SELECT count(*) FROM outbox_internal.side_lane') // 1) > 0; sleep 0.05 }
	$redis->command('DEL', 'side');
	return;
}
# Two sessions emit under one key, the second before the first has ended.
my $keys_taken = 0;
sub same_key_twice
{
	my $emit = sprintf q(outbox.emit('nobody', 'k', 'x', '1', dedupe_key => 'key %d')), ++$keys_taken;
	my $first = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SELECT $emit, pg_sleep(0.5)" ], '<', \'', '>', \my $out, '2>', \my $err);
	sleep 0.1;
	try_sql("SELECT $emit");
	eval { $first->finish };
	return;
}
my $times_forgotten = 0;
my $forgotten = 0; # events that it must have in the end
# Twenty times an hour a lane is put back for it; after a seek() the count is a new one, and nothing from before it goes again.
sub forgotten_is_over
{
	ok(wait_until(sub { defined try_sql(q(CALL outbox.seek('forgetful', 'infinity', reason => 'all is there', dry_run => false))) }, 10),
		'what Redis has forgotten so far is over');
	$forgetful->command('DEL', 'forgetful');
	$forgotten = 0;
	return;
}
sub redis_forgets
{
	# By the clock of events, which is ahead of the server's by what the points before have shifted it.
	my $some = try_sql("SELECT count(outbox.emit_text('forgetful', i, 'x', 'x', deliver_at => CASE WHEN i = 4 THEN GREATEST(clock_timestamp(), (SELECT max(created_at) FROM outbox_internal.log)) + interval '0.2 s' END)) FROM generate_series(1, 4) i");
	$forgotten += $some // 0;
	# Longer than it takes to look twice: else nobody comes to the second look.
	for (1 .. 250) { last if $forgetful->xlen('forgetful') >= $forgotten; sleep 0.02 }
	# Half of the times it is known that what was parked was delivered: else nothing parked is ever lost on a machine where that takes longer than killing.
	for (1 .. ++$times_forgotten % 2 * 100) { last if (try_sql('SELECT count(*) FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE r.name = ' . q('forgetful')) // 1) == 0; sleep 0.02 }
	$forgetful->kill9;
	$forgetful->run('start', $forgetful->{dir}, $forgetful->{port}); # which empties it
	return;
}
sub terminate { return try_sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = '$_[0]'") }
sub terminate_relays { return terminate('outbox relay') }
sub refused { return try_sql("SELECT outbox.emit_text('strange', 1, 'no topic!', 'x')") }

sub provoke
{
	my ($name) = @_;
	try_sql('SELECT business(2)');
	my ($start) = sort { length $b <=> length $a } grep { index($name, $_) == 0 } keys %how;
	$how{$start}->() if defined $start;
	try_sql('SELECT pg_reload_conf()') if $name =~ /^(?:daytable|drop|carry|log_table)\./;
	return;
}

# One that stays connected; when it is gone, a session has noticed.
my ($in, $out) = ('', '');
my $session;
sub open_session
{
	($in, $out) = ('', '');
	$session = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$in, '>', \$out, '2>', \my $err);
	return;
}
sub session_lives
{
	$out = '';
	$in .= "SELECT 'alive';\n";
	my $deadline = time + 10;
	while (time < $deadline && $session->pumpable && $out !~ /alive/) { eval { $session->pump_nb; 1 } or last; sleep 0.01 }
	return $out =~ /alive/;
}

sub check_redis { return Outbox::Ledger::check($node, "$_[0], Redis", $redis->column('ledger', 'payload'), duplicates => 1) }
sub check_kafka { return Outbox::Ledger::check($node, "$_[0], Kafka", $kafka->payloads('ledger'), duplicates => 1) }

open_session();
my $only = $ENV{OUTBOX_POINTS} // '.'; # some of them, by hand
my $tried = 0;
foreach my $name (grep { /$only/ } sort keys %$points)
{
	my $in_sink = $points->{$name} =~ m{/sink/};
	my $before = crash_restarts($node);
	forgotten_is_over() if $name =~ /^(?:server_check|rewind)\./;
	open_session() if $in_sink && !session_lives();
	Outbox::Faults::arm($name, 'kill');
	my $deadline = time + 60;
	while (time < $deadline && !Outbox::Faults::hits($name))
	{
		provoke($name);
		for (1 .. 40) { last if Outbox::Faults::hits($name); sleep 0.02 }
	}
	my $hit = is(Outbox::Faults::hits($name), 1, "$name: crashed there");
	Outbox::Faults::disarm($name);
	($in_sink ? wait_for_value($node, 'SELECT true', 't') : server_is_back($node, $before)) or BAIL_OUT("$name: the server does not come back");
	try_sql('SELECT pg_reload_conf()'); # our processes that crashed again and again are not held back
	if ($in_sink)
	{
		is(crash_restarts($node), $before, "$name: the server went on");
		ok(session_lives(), "$name: and no session noticed");
	}
	ok(wait_idle($node, 30), "$name: everything is delivered afterwards") or next;
	ok(wait_until(sub { $forgetful->xlen('forgetful') >= $forgotten }, 30), "$name: and what Redis has forgotten is sent again")
	  if $name =~ /^(?:server_check|rewind)\./;
	check_redis($name);
	check_kafka($name) if ++$tried % 10 == 0;
}
check_kafka('all');
my @parked = split /\n/, $node->safe_psql('postgres',
	"SELECT count(*) - count(DISTINCT (route_id, id)) FROM outbox_internal.parked");
is($parked[0], 0, 'no event was parked twice');
$session->kill_kill;
done_testing();
