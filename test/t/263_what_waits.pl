# What waits, as outbox.metrics(), outbox.lag and the progress of a drain tell it: of each route what it wants and has not delivered, and of
# nobody else's. A paused destination with 130 innocent routes; one event among thousands; a route that began late, one that began at
# the start of the log; topics that have left their lane, one and three; a transaction that is open; after a restart; without a worker;
# without a keeper; on a standby.
# matrix: M9
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "outbox.max_series = 200\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION outbox');
sub sql { return $node->safe_psql('postgres', @_) }
sub figure { my ($name, $route) = @_; return "SELECT value FROM outbox.metrics() WHERE name = 'outbox_$name' AND labels ->> 'route' = '$route'" }
sub emit { my ($type, $count, $event) = @_; $event //= 'e'; return sql("SET outbox.lone_emit = allow; DO \$\$ BEGIN FOR i IN 1 .. $count LOOP PERFORM outbox.emit_text('$type', 'k' || i % 7, '$event', 'x'); IF i % 50 = 0 THEN COMMIT; END IF; END LOOP; END \$\$") }
my $innocent = q(SELECT count(*) FILTER (WHERE value <> 0) || ' ' || count(*) FROM outbox.metrics() WHERE name IN ('outbox_pending_events', 'outbox_oldest_pending_age_seconds') AND labels ->> 'route' ~ '^i');
my $lag = q(SELECT sum(pending) || ' ' || count(delay) || ' ' || count(*) FROM outbox.lag WHERE route ~ '^i');

sql('CREATE SERVER held FOREIGN DATA WRAPPER outbox_null; CREATE SERVER open FOREIGN DATA WRAPPER outbox_null');
sql(q(SELECT outbox.create_route('busy', server => 'held', aggregate_types => '{busy}'), outbox.create_route('free', server => 'open', aggregate_types => '{busy}')));
sql(q(SELECT outbox.create_route('i' || i, server => 'held', aggregate_types => ARRAY['other' || i]) FROM generate_series(1, 129) i));
emit('busy', 10);
ok(wait_idle($node), 'delivered');
sql(q(SELECT outbox.pause(server => 'held', reason => 'test')));

# --- what is not due is not waiting: not for the figures, nor for wait_until_idle() ---
sql(q(SELECT count(outbox.emit_text('busy', 'k', 'e', 'x', deliver_at => clock_timestamp() + i)) FROM unnest(ARRAY[interval '1 h', '1 h', '1 h', '10 s', '10 s']) i));
is(sql(q(SELECT outbox.wait_until_idle('20 s'))), 't', 'events of later, of which a paused route has read none: idle');
is(sql(q(SET client_min_messages = error; SELECT outbox.wait_until_idle('0', include_delayed => true))), 'f', 'not where they are asked for');
my $later = q(SELECT pending || ' ' || (delay IS NULL) || ' ' || (oldest_pending IS NULL) FROM outbox.lag WHERE route = 'busy');
is(sql($later), '0 true true', 'outbox.lag has nothing that waits');
is(sql(figure('pending_events', 'busy')) . sql(figure('oldest_pending_age_seconds', 'busy')), '00', 'the figures neither');
ok(wait_for_value($node, $later, '2 false false', 60), 'two are due, and wait');
ok(wait_for_value($node, figure('pending_events', 'busy'), '2', 60), 'in the figures, too');
is(sql('SELECT delay BETWEEN interval \'0\' AND \'9 s\' FROM outbox.lag WHERE route = \'busy\''), 't', 'since they are due');
is(sql(q(SET client_min_messages = error; SELECT outbox.wait_until_idle('1 s'))), 'f', 'and that is not idle');
sql(q(SELECT outbox.resume(server => 'held')));
ok(wait_idle($node), 'delivered');
sql(q(SELECT outbox.pause(server => 'held', reason => 'test')));

# --- a paused destination ---
emit('busy', 6000);
ok(wait_for_value($node, 'SELECT sum(pending) FROM outbox.lag WHERE route = \'free\'', '0', 60), 'what is not paused is delivered');
is(sql(q(SELECT pending || ' ' || pending_capped || ' ' || (delay > interval '0') FROM outbox.lag WHERE route = 'busy')), '6000 false true', 'outbox.lag counts what waits');
is(sql($lag), '0 0 129', 'and nothing of it for 129 routes that want none of it');
ok(wait_for_value($node, figure('pending_events', 'busy'), '6000', 60), 'the figures know exactly');
is(sql(figure('pending_estimated', 'busy')), '0', 'and say so');
cmp_ok(sql(figure('oldest_pending_age_seconds', 'busy')), '>', 0, 'since when');
is(sql($innocent), '0 258', 'nobody else has anything waiting');

# --- much is emitted that no paused route wants: what is known does not swing ---
my $noise = $node->background_psql('postgres');
$noise->query_until(qr/begun/, "\\echo begun\nSET outbox.lone_emit = allow; DO \$\$ BEGIN FOR i IN 1 .. 3000 LOOP PERFORM outbox.emit_text('noise', 'k' || i, 'e', 'x'); COMMIT; END LOOP; END \$\$;\n");
my $known = q{SELECT string_agg(value::text, ' ' ORDER BY name) FROM outbox.metrics() WHERE labels ->> 'route' = 'busy' AND name IN ('outbox_pending_events', 'outbox_pending_estimated')};
my (%figure, %counted, @apart);
foreach (1 .. 1000)
{
	my $emitting = sql(q(SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ 'noise' AND pid <> pg_backend_pid()));
	my ($estimated, $pending) = split / /, sql($known);
	# A position that is saved only now is looked behind anew: for a moment it is an estimate, and says so.
	push @apart, $pending if $estimated && abs($pending - 6000) > 300;
	$figure{$pending}++ if !$estimated;
	$counted{ sql(q(SELECT pending FROM outbox.lag WHERE route = 'busy')) }++;
	last if !$emitting && !$estimated;
}
is(join(' ', sort keys %figure), '6000', 'in the figures');
is("@apart", '', 'nor is an estimate far from it');
is(join(' ', sort keys %counted), '6000', 'and in outbox.lag');
is(sql($innocent), '0 258', 'nor do others have any of it');
$noise->quit;

# --- one event behind all that, in a transaction that is open at first ---
my $psql = $node->background_psql('postgres');
$psql->query_safe(q(BEGIN; SET outbox.lone_emit = allow; SELECT outbox.emit_text('other7', 'k', 'e', 'x')));
emit('busy', 6000);
is(sql(q(SELECT pending || ' ' || (delay IS NULL) FROM outbox.lag WHERE route = 'i7')), '0 true', 'what is not committed does not wait');
is(sql(figure('pending_events', 'i7')), '0', 'nor in the figures');
$psql->query_safe('COMMIT');
is(sql(q(SELECT pending || ' ' || (delay IS NULL) FROM outbox.lag WHERE route = 'i7')), '1 false', 'committed, it does');
ok(wait_for_value($node, figure('pending_events', 'i7'), '1', 60), 'the figures find one among 12,001');
cmp_ok(sql(figure('oldest_pending_age_seconds', 'i7')), '>', 0, 'with its age');
is(sql($innocent), '2 258', 'and of nobody else');
$psql->quit;

# --- without a worker; after a restart; without a keeper ---
sql('ALTER SYSTEM SET outbox.enabled = off; SELECT pg_reload_conf()');
ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'), '0', 60), 'no worker');
emit('busy', 100);
ok(wait_for_value($node, figure('pending_events', 'busy'), '12100', 60), 'what waits is told without one');
is(sql(q(SELECT pending FROM outbox.lag WHERE route = 'free')), '100', 'also for a route that is not paused');
ok(wait_for_value($node, figure('pending_events', 'free'), '100', 60), 'in the figures, too');
$node->restart;
ok(wait_for_value($node, figure('pending_events', 'i7'), '1', 60), 'after a restart it is found again');
is(sql($innocent), '2 258', 'and still of nobody else');

# --- a route that begins late, and one that begins with the log ---
sql(q(SELECT outbox.create_route('late', server => 'held', aggregate_types => '{busy}'), outbox.create_route('earliest', server => 'held', aggregate_types => '{busy}', start => 'earliest')));
is(sql(q(SELECT string_agg(route || ' ' || pending, ', ' ORDER BY route) FROM outbox.lag WHERE route IN ('late', 'earliest'))), 'earliest 12112, late 0', 'what was before its start is no route\'s');
ok(wait_for_value($node, figure('pending_events', 'earliest'), '12112', 60), 'the figures know');
is(sql(figure('pending_events', 'late')), '0', 'the late one has nothing');
emit('busy', 3);
is(sql(q(SELECT string_agg(route || ' ' || pending, ', ' ORDER BY route) FROM outbox.lag WHERE route IN ('late', 'earliest'))), 'earliest 12115, late 3', 'what comes is both\'s');

# --- on a standby, where no process of outbox runs ---
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', q(SELECT string_agg(route || ' ' || pending, ', ' ORDER BY route) FROM outbox.lag WHERE pending > 0)), 'busy 12103, earliest 12115, free 103, i7 1, late 3', 'a standby counts the same');
cmp_ok($standby->safe_psql('postgres', figure('pending_events', 'busy')), '>', 6000, 'and has figures');
sql(q(SELECT outbox.create_route('whole', server => 'held', aggregate_types => '{whole}')));
sql(q(SELECT count(outbox.emit_text('whole', 'k' || i, 'e', 'x')) FROM generate_series(1, 20000) i));
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
my $whole = $standby->safe_psql('postgres', figure('pending_events', 'whole'));
ok($whole > 10000 && $whole < 40000, 'also an estimate of one large transaction, which was not looked through') or diag($whole);
$standby->stop;

# --- the drain: it moves with what is acknowledged, and ends as it should ---
sql('ALTER SYSTEM SET outbox.enabled = on; SELECT pg_reload_conf()');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.lag WHERE state <> 'unowned' AND route NOT IN ('free', 'whole')), '132', 60), 'the workers are back');
sql(q(SELECT outbox.resume(server => 'held')));
ok(wait_idle($node, 120), 'all is delivered');
ok(wait_for_value($node, q(SELECT sum(value) FROM outbox.metrics() WHERE name = 'outbox_pending_events'), '0', 60), 'and nothing waits');
is(sql('SELECT sum(pending) || \' \' || count(delay) FROM outbox.lag'), '0 0', 'nor in outbox.lag');

# --- a backlog in a day that somebody has locked before it was counted: what cannot be counted is not zero ---
sql(q(SELECT outbox.pause('free', reason => 'test')));
sql(q(CALL outbox.seek('free', '-infinity', dry_run => false)));
my $locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE ' . sql(q(SELECT string_agg(c.oid::regclass::text, ', ') FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid WHERE i.inhparent = 'outbox_internal.log'::regclass)) . ' IN ACCESS EXCLUSIVE MODE');
sql(q(SELECT outbox.resume('free')));
ok(wait_for_value($node, q(SELECT (state = 'idle') || ' ' || (delay IS NULL) || ' ' || pending_capped FROM outbox.lag WHERE route = 'free'), 'false false true', 60), 'the lane is not idle, and late')
  or diag(sql(q(SELECT * FROM outbox.lag WHERE route = 'free')));
ok(wait_for_value($node, q(SELECT value > 1 FROM outbox.metrics() WHERE name = 'outbox_oldest_pending_age_seconds' AND labels ->> 'route' = 'free'), 't', 60), 'with an age that an alert sees');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.pg_stat_progress_outbox WHERE command = 'drain' AND route = 'free' AND total IS NULL AND time_left IS NULL AND hint ~ 'doctor'), '1', 60), 'and a drain of nobody knows how many');
is(sql(q(SELECT sum(pending) FROM outbox.lag WHERE route ~ '^i')), '0', 'those that have nothing waiting still have not');
is(sql(q(SELECT labels ->> 'part' FROM outbox.metrics() WHERE name = 'outbox_figures_left_out')), 'log', 'what an alert goes by');
sql('ALTER SYSTEM SET outbox.enabled = off; SELECT pg_reload_conf()');
ok(wait_for_value($node, q(SELECT state || ' ' || (delay BETWEEN interval '0' AND '1 h') || ' ' || pending_capped FROM outbox.lag WHERE route = 'free'), 'unowned true true', 60), 'without a worker, too: late since one had it')
  or diag(sql(q(SELECT * FROM outbox.lag WHERE route = 'free')));
is(sql(q(SELECT value > 0 FROM outbox.metrics() WHERE name = 'outbox_oldest_pending_age_seconds' AND labels ->> 'route' = 'free')), 't', 'in the figures as well');
$locker->query_safe('ROLLBACK');
sql('ALTER SYSTEM SET outbox.enabled = on; SELECT pg_reload_conf()');
$locker->quit;
ok(wait_idle($node, 120), 'all is delivered');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox.pg_stat_progress_outbox', '0', 60), 'no drain is left');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox.pg_stat_progress_outbox', '0', 60), 'no drain is left');
no_server_crashed($node);

# --- topics that have left their lane: one, then three ---
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('{event_type}'), aggregate_types => q('{order}'));
sql(q(SELECT outbox.drop_route('i' || i) FROM generate_series(1, 129) i));
ok(wait_idle($node), 'idle');
foreach my $topics ([1], [ 1, 2, 3 ])
{
	my @topics = map { "bad$_" } @$topics;
	$redis->command('SET', $_, 'no stream') foreach @topics;
	emit('order', 20, $_) foreach @topics;
	emit('order', 3000, 'well');
	ok(wait_for_value($node, q(SELECT count(*) FROM outbox.lag WHERE side IS NOT NULL AND pending + parked > 0 AND topic <> ''), scalar @topics, 90) || 1, 'topics have left');
	my $waits = 20 * @topics;
	ok(wait_for_value($node, q(SELECT (SELECT sum(pending) FROM outbox.lag WHERE route = 'redis') + (SELECT count(*) FROM outbox_internal.parked WHERE state <> 'scheduled')), $waits, 90), "$waits events of " . @topics . ' topics wait')
	  or diag(sql('TABLE outbox.lag'));
	ok(wait_for_value($node, q(SELECT (SELECT sum(value) FROM outbox.metrics() WHERE name = 'outbox_pending_events' AND labels ->> 'route' = 'redis') + (SELECT count(*) FROM outbox_internal.parked WHERE state <> 'scheduled')), $waits, 90), 'in the figures the same')
	  or diag(sql(q(SELECT name, labels, value FROM outbox.metrics() WHERE labels ->> 'route' = 'redis')));
	$redis->command('DEL', $_) foreach @topics;
	ok(wait_idle($node, 90), 'they are back');
}

# --- a destination that is away, with events of later among those that wait: in flight, read, and not read ---
$redis->stop;
emit('order', 1);
ok(wait_for_value($node, q(SELECT state FROM outbox.destination WHERE server = 'redis'), 'open', 60), 'it is away');
foreach my $seconds (3600, 8)
{
	sql("SELECT outbox.emit_text('order', 'k', 'well', 'x', deliver_at => clock_timestamp() + interval '$seconds s')") foreach 1 .. 2;
	sql("SELECT count(outbox.emit_text('order', 'k' || i, 'well', 'x', deliver_at => clock_timestamp() + interval '$seconds s')) FROM generate_series(1, 3000) i") if $seconds > 60;
}
my $one = figure('pending_events', 'redis');
is(sql($one), '1', 'one waits, the others are of later') or diag(sql(q(SELECT * FROM outbox.lag WHERE route = 'redis')));
is(sql(q(SELECT sum(pending) FROM outbox.lag WHERE route = 'redis')), '1', 'also in outbox.lag');
ok(wait_for_value($node, "SELECT (SELECT sum(pending) FROM outbox.lag WHERE route = 'redis') + (SELECT sum(overdue) FROM outbox.lag WHERE route = 'redis')", '3', 60), 'two more are due')
  or diag(sql(q(SELECT * FROM outbox.lag WHERE route = 'redis')));
my $all = q(SELECT sum(value) FROM outbox.metrics() WHERE name IN ('outbox_pending_events', 'outbox_parked_overdue_events') AND labels ->> 'route' = 'redis');
ok(wait_for_value($node, $all, '3', 60), 'in the figures the same') or diag(sql(q(SELECT name, labels, value FROM outbox.metrics() WHERE labels ->> 'route' = 'redis')));

# --- routes that stand at many places, behind one large transaction: what came after it is found, in whatever order it lies ---
sql('CREATE SERVER stands FOREIGN DATA WRAPPER outbox_null');
sql(q(SELECT outbox.pause(server => 'stands', reason => 'test')));
foreach my $number (1 .. 12)
{
	sql("SELECT outbox.create_route('s$number', server => 'stands', aggregate_types => '{s$number}')");
	emit("s$number", 1);
}
sql(q(SET outbox.lone_emit = allow; SELECT count(outbox.emit_text('s1', 'k' || i, 'e', 'x')) FROM generate_series(1, 60000) i));
emit($_, 1) foreach qw(s1 s12);
is(sql(q(SELECT string_agg(pending || ' ' || pending_capped, ', ' ORDER BY pending DESC) FROM outbox.lag WHERE route IN ('s1', 's7', 's12'))), '60002 false, 2 false, 1 false', 'outbox.lag counts all of it');
no_server_crashed($node);
done_testing();
