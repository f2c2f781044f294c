# The log by days and the disk: what outbox.max_log_size and drop_expired() drop before its time, and that neither ever drops what
# is undelivered, a day that has not ended, or one of the future; what is said, and how often; what doctor() says of the room
# that is left. No relay worker runs here: lanes move by hand.
# matrix: B12
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 0\noutbox.retention = '20000d'\n");
sub sql { return $node->safe_psql('postgres', "SET outbox.allow_loss = on; $_[0]") }
sub there { return sql("SELECT to_regclass('outbox_internal.$_[0]') IS NOT NULL") eq 't' }
sub told { my (undef, $out, $err) = $node->psql('postgres', $_[0]); return ($out, $err) }
sub lines { my ($pattern) = @_; return scalar(() = slurp_file($node->logfile) =~ /$pattern/g) }

# So many events of 4 MB that do not compress, one a second from that moment on.
sub large
{
	my ($table, $from, $events) = @_;
	return "INSERT INTO outbox_internal.$table (created_at, id, xid, aggregate_type, event_type, payload)
		  SELECT $from + e * interval '1 s', gen_random_uuid(), pg_current_xact_id(), 't', 'large', string_agg(sha256((e || '/' || i)::bytea), '')
		  FROM generate_series(1, $events) e, generate_series(1, 131072) i GROUP BY e";
}

# A day with so many of them; 0: none.
sub day
{
	my ($day, $events) = @_;
	my $name = 'log_' . $day =~ s/-//gr;
	sql("CREATE TABLE outbox_internal.$name (LIKE outbox_internal.log); CREATE INDEX ON outbox_internal.$name (xid);
		" . large($name, "timestamptz '$day 12:00+00'", $events) . ";
		ALTER TABLE outbox_internal.log ATTACH PARTITION outbox_internal.$name FOR VALUES FROM ('$day 00:00+00') TO (timestamptz '$day 00:00+00' + interval '1 day')");
	return $name;
}
my $finish = 'UPDATE outbox_internal.lane SET window_from = pg_current_snapshot()';
sub limit { sql("ALTER SYSTEM SET outbox.max_log_size = '$_[0]'"); upkeep($node); return }

sql("CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');
	SET outbox.test_new_routes = off;
	SELECT outbox.create_route('a', server => 'nowhere'), outbox.create_route('b', server => 'nowhere', lanes => 64);
	SELECT outbox.emit('t', 1, 'new', '{}')");
ok(wait_for_value($node, "SELECT count(*) >= 4 FROM pg_inherits WHERE inhparent = 'outbox_internal.log'::regclass", 't'), 'days are made ahead');

my @days = (day('2020-01-01', 1), day('2020-01-02', 1), day('2020-01-03', 0), day('2020-01-04', 1));
sql("$finish WHERE route_id = (SELECT id FROM outbox.route WHERE name = 'a')");
my $held = day('2020-01-05', 1);

# --- drop_expired(): what it says, to whom, in a transaction ---
my ($out, $err) = told(q(BEGIN; CALL outbox.drop_expired(); CALL outbox.drop_expired(keep => '100 years'); COMMIT));
is($out, "0|0\n0|0", 'before retention is over nothing would go; a dry run may be in a transaction');
unlike($err, qr/log_2020/, 'and nothing is said of days that are kept for that');
($out, $err) = told(q(CALL outbox.drop_expired(keep => '1 day')));
like($out, qr/^1\|\d+$/, 'a shorter time: what no route has delivered is in the way, but of a day with nothing in it');
like($err, qr/would keep outbox_internal\.log_20200101 \(\d+ \w+, about 1 event\)\n.*In the way is route "b" \(1 event since 2020-01-01 12:00:01/, 'by whom, how much, since when');
like($err, qr/would drop outbox_internal\.log_20200103 \(\d+ \w+, about 0 events\)/, 'the empty one would go');
($out, $err) = told(q(BEGIN; CALL outbox.drop_expired(dry_run => false); COMMIT));
like($err, qr/cannot run inside a transaction block/, 'for good it commits as it goes');
foreach my $wrong ([ q(keep => '-1 day'), 'keep must not be negative' ], [ q(dry_run => NULL), 'dry_run must not be null' ])
{
	($out, $err) = told("CALL outbox.drop_expired($wrong->[0])");
	like($err, qr/$wrong->[1]/, $wrong->[0]);
}
sql('CREATE ROLE looks; GRANT pg_monitor TO looks; CREATE ROLE acts');
sql(q(SELECT outbox.grant_operate('acts')));
($out, $err) = told('SET ROLE looks; CALL outbox.drop_expired()');
like($err, qr/permission denied for procedure drop_expired/, 'whoever may only look may not');
($out) = told(q{SET ROLE looks; SELECT count(*) FROM outbox.day WHERE held_by LIKE '%route "b" (1 event since 2020-01-0%'});
is($out, '4', 'but sees what is held, and by whom');
($out) = told(q(SET ROLE acts; CALL outbox.drop_expired(keep => '1 day')));
like($out, qr/^1\|/, 'an operator may');

# --- for good ---
sql("$finish WHERE lane < 63");
($out, $err) = told(q(CALL outbox.drop_expired(keep => '1 day', dry_run => false, reason => 'ticket 1')));
like($out, qr/^1\|\d+$/, 'one lane of 65 is behind: nothing but the empty day goes');
ok(!there($days[2]) && there($days[0]) && there($held), 'the others are there');
sql($finish);
my $late = day('2020-01-06', 1);
($out) = told(q(CALL outbox.drop_expired(keep => '1 day')));
like($out, qr/^4\|/, 'when they are delivered they would go');
ok(there($days[0]), 'a dry run drops nothing');
($out, $err) = told(q(SET ROLE acts; SET default_transaction_isolation = 'repeatable read'; CALL outbox.drop_expired(keep => '1 day', dry_run => false)));
like($out, qr/^4\|/, 'by an operator, whatever the isolation');
is(sql(q(SELECT string_agg(detail ->> 'log_table' || ' ' || (detail ->> 'rows') || ' ' || coalesce(reason, ''), ', ') FROM outbox.audit WHERE action = 'drop_expired' AND reason IS NOT NULL)),
	'outbox_internal.log_20200103 0 ticket 1', 'the audit has what went');
ok(there($late), 'what came last is undelivered and there');
# One that cannot go holds up none of the others.
my @viewed = map { day($_, 1) } '2020-01-08', '2020-01-09';
sql("CREATE VIEW somebodys AS SELECT id FROM outbox_internal.$viewed[0]");
sql($finish);
($out, $err) = told(q(CALL outbox.drop_expired(keep => '1 day', dry_run => false)));
like($out, qr/^2\|/, 'a day that a view reads: the others go');
like($err, qr/kept outbox_internal\.log_20200108 .*\n.*In the way is view public\.somebodys/, 'and it is said why that one does not');
ok(there($viewed[0]) && !there($viewed[1]), 'the one before it is there, the one behind it is not');
sql('DROP VIEW somebodys; CALL outbox.drop_expired(keep => \'1 day\', dry_run => false)');
ok(!there($viewed[0]), 'without the view it goes');

# --- outbox.max_log_size ---
sql($finish);
day($_, 1) foreach '2020-01-01', '2020-01-02';
sql($finish);
my $undelivered = day('2020-01-07', 1);
my $mb = int(sql('SELECT sum(bytes) FROM outbox.day') / 1048576);
limit(10 * $mb . 'MB');
ok(there($days[0]), 'nothing goes while there is room');
is(lines(qr/outbox: (?:the log has|dropped)/), 0, 'and nothing is said');
limit($mb + 2 . 'MB');
ok(there($days[0]), 'nor when it is near the limit');
is(lines(qr/WARNING:  outbox: the log has \d+ % of outbox\.max_log_size/), 1, 'which is said');
upkeep($node);
is(lines(qr/WARNING:  outbox: the log has \d+ % of outbox\.max_log_size/), 1, 'once');
like(sql(q(SELECT detail FROM outbox.doctor() WHERE "check" = 'log' AND status = 'warning')), qr/The log has \d+ MB, \d+ % of outbox\.max_log_size\./, 'also by doctor()');
limit($mb - 2 . 'MB');
ok(!there($days[0]), 'the oldest delivered day goes before its time');
ok(there($days[1]), 'and no more of them than it takes');
is(lines(qr/LOG:  outbox: dropped 1 delivered day of the log before its time/), 1, 'which is said');
my $early = q(SELECT detail ->> 'log_table' || ' ' || ((detail ->> 'bytes')::bigint > 4e6) || ' ' || ((detail ->> 'max_log_size')::bigint / 1048576) FROM outbox.audit
	WHERE action = 'drop_expired' AND reason = 'the log was larger than outbox.max_log_size' ORDER BY at);
is(sql($early), "outbox_internal.$days[0] true " . ($mb - 2), 'and audited: which, how large it was, and the limit');
is(sql(q(SELECT value FROM outbox.metrics() WHERE name = 'outbox_log_limit_bytes')), ($mb - 2) * 1048576, 'the limit is a figure');
limit('1MB');
ok(!there($days[1]) && !there($late), 'all that is delivered');
is(scalar(() = sql($early) =~ /^outbox_internal/mg), 2, 'each with a row in the audit');
ok(there($undelivered), 'what a route has not delivered is kept, however large it is');
ok(sql("SELECT count(*) FROM outbox.day WHERE state = 'open'") >= 4, 'and so are today, which is larger than the limit with it, and the days to come');
is(lines(qr/WARNING:  outbox: the log has \d+ % of outbox\.max_log_size\n.*DETAIL:  What could be dropped is gone/), 1, 'that is said once');
upkeep($node);
is(lines(qr/WARNING:  outbox: the log has \d+ % of outbox\.max_log_size/), 2, 'and not again');
sql($finish);
upkeep($node);
ok(!there($undelivered), 'until it is delivered');
is(sql(q(SELECT count(*) FROM outbox_internal.log)), 1, 'today is there');
limit('0');

# --- the disk ---
my $disk = q(SELECT status || ': ' || detail || coalesce(' ' || hint, '') FROM outbox.doctor() WHERE "check" = 'disk');
like(sql($disk), qr/^ok: The disk has \d+ \w+ free\. How fast the log grows is known ten minutes after its first event\.$/, 'of a new log the pace is not known');
# Pace and room are known once there is a day before. How much of yesterday counts is a matter of the hour, shortly before
# midnight nothing of it does: today has as much, by emit(), for a row of anybody else's is turned away.
day(sql(q(SELECT to_char((now() AT TIME ZONE 'UTC')::date - 1, 'YYYY-MM-DD'))), 1);
sql(q(SELECT outbox.emit_bytes('t', '1', 'large', string_agg(sha256(i::text::bytea), '')) FROM generate_series(1, 131072) i GROUP BY i % 5));
cmp_ok(sql(q(SELECT bytes FROM outbox.day WHERE state = 'open' ORDER BY 1 DESC LIMIT 1)), '>', 4e6, 'today is large');
Outbox::Faults::put('log.seen', 86400 * 1000000);
like(sql($disk), qr/^ok: The disk has \d+ \w+ free, and the log grows by \d+ \w+ a day/, 'with a day before it is');
Outbox::Faults::put('log.disk_free', 63 * 1048576);
like(sql($disk), qr/^problem: The disk has 63 MB free: emit\(\) fails when that is used up, .*Make room there\./, 'a disk with next to nothing left is one, whatever the pace');
Outbox::Faults::put('log.disk_free', 1024 * 1048576);
Outbox::Faults::put('log.disk_files', 17);
like(sql($disk), qr/^problem: The disk has 1024 MB free, and only 17 more files can be made there: its file system has too few inodes\..*df -i/, 'so is one with no room for files');
Outbox::Faults::disarm('log.disk_files');
Outbox::Faults::put('doctor.disk_nothing', 1);
Outbox::Faults::put('log.disk_free', 1048576);
like(sql($disk), qr/^warning: The disk has 1024 kB free, and the log grows by \d+ \w+ a day: at that pace it is full in \d+ (?:minutes|hours|days)\. Days go 20000d after their end: lower outbox\.retention/,
	'a disk with less room than the log will need: how long it lasts, and what to do');
# One load is no pace: how long it was looked at is said, and nothing is foreseen for more than 24 times as long.
Outbox::Faults::put('log.seen', 13 * 60 * 1000000);
my $young = sql($disk);
like($young, qr/^warning: The disk has 1024 kB free, and the log grew by \d+ kB in the last 13 minutes: at that pace it is full in (?:a|\d+) minutes?\. So short a time may be one load/,
	'of a young log it is said how young');
my ($grown, $left) = $young =~ /grew by (\d+) kB .* full in (a|\d+) minute/;
cmp_ok(abs(($left eq 'a' ? 1 : $left) - 13 * 1024 / $grown), '<=', 1, "and how long the disk lasts at that pace: $left minutes, at $grown kB in 13");
Outbox::Faults::put('log.disk_free', 1024 * 1048576);
like(sql($disk), qr/^ok: The disk has 1024 MB free, and the log grew by \d+ \w+ in the last 13 minutes\.$/, 'and days are not foreseen from minutes');
Outbox::Faults::put('log.disk_free', 1048576);
Outbox::Faults::put('log.seen', 86400 * 1000000);
sql(q(ALTER SYSTEM SET outbox.retention = '0'; SELECT pg_reload_conf()));
ok(wait_until(sub { sql($disk) =~ /^warning: .*Routes hold days that would have gone/ }, 20), 'with routes that hold it: what to do is another') || diag(sql($disk));
Outbox::Faults::put('log.disk_free', 100 * 1048576);
sql($finish);
ok(wait_until(sub { sql($disk) =~ /^ok: / }, 20), 'where days go as fast as they come a small disk is enough') || diag(sql($disk));
Outbox::Faults::disarm($_) foreach 'log.disk_free', 'log.seen', 'doctor.disk_nothing';
no_server_crashed($node);
done_testing();
