# A stored ceiling of the clock that is no time of events: told as any other that is too late, nothing is dropped, and reset_clock() mends it.
# matrix: R4
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
sub sql { return $node->safe_psql('postgres', @_) }
sql(q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', 'n')));
sub emit { return sql(qq(SELECT outbox.emit('t', 'k', '$_[0]', '1'))) }

# The server crashes, and its keeper has done a round of upkeep since.
sub restart_with
{
	my ($ceiling) = @_;
	ok(wait_idle($node), 'all is delivered');
	sql("SELECT setval('outbox_internal.clock_ceiling', $ceiling)");
	$node->stop('immediate');
	$node->start;
	ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox keeper' AND state = 'idle'), 1, 60), 'the keeper has looked');
	return;
}
my $today = q(SELECT count(*) > 0 FROM pg_inherits WHERE inhparent = 'outbox_internal.log'::regclass AND inhrelid::regclass::text LIKE '%log\_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'));
my $clock = q(SELECT status FROM outbox.doctor() WHERE "check" = 'clock');
my $order = q(SELECT string_agg(event_type, ' ' ORDER BY created_at) FROM outbox_internal.log);
my $now = q(SELECT max(created_at) BETWEEN now() - interval '5 min' AND now() + interval '1 min' FROM outbox_internal.log);
my @all = ('first');
emit('first');

# The largest bigint; a timestamp's largest; the last microsecond of the year 9999; the first that is no time of events, and the day before.
foreach my $ceiling ('9223372036854775807', '9223372036854775806', '9223371331199999999', '253402300799999999', '253370764800000001', '253370678400000000')
{
	restart_with($ceiling);
	is(sql($order), "@all", "$ceiling: nothing is dropped");
	is(sql($today), 't', 'nor the table of today');
	is(sql($clock), 'problem', 'doctor() tells of the clock');
	emit($ceiling);
	push @all, $ceiling;
	is(sql($order), "@all", 'order is kept');
	# A second start, after events have moved the clock.
	$node->stop('immediate');
	$node->start;
	emit("$ceiling+");
	push @all, "$ceiling+";
	is(sql($order), "@all", 'after one more crash as well');
	ok(wait_idle($node), 'all is delivered');
	is(sql(q(SELECT outbox.reset_clock() > interval '1000 years')), 't', 'reset_clock() puts it back');
	is(sql($clock), 'ok', 'and that is that');
	sql('SET outbox.allow_loss = on; DELETE FROM outbox_internal.log');
	@all = ('now');
	emit('now');
	is(sql($now), 't', 'the next event has the time of now');
	restart_with(q((SELECT last_value FROM outbox_internal.clock_ceiling)));
	is(sql($clock), 'ok', 'also after a crash');
	is(sql("$order WHERE event_type = 'now'"), 'now', 'and nothing is dropped');
}

# As one that was never written.
foreach my $ceiling (0, 1)
{
	restart_with($ceiling);
	is(sql($order), "@all", "$ceiling: nothing is dropped");
	is(sql($clock), 'ok', 'and nothing told');
	emit($ceiling);
	push @all, $ceiling;
	is(sql($order), "@all", 'order is kept');
	is(sql($now), 't', 'by the time of now');
}
ok(wait_idle($node), 'all is delivered');
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/outbox keeper.*(23514|22008)/, 'the keeper made all tables');
no_server_crashed($node);
done_testing();
