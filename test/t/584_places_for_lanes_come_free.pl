# Lanes that found no place in outbox.max_lanes have one soon after there is one, and nobody takes them for lanes without a
# relay worker before that.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.max_lanes = 16\noutbox.workers = 1\nmax_worker_processes = 20\n");

sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }
sub doctor { return sql(q(SELECT coalesce(string_agg(status || ' ' || detail, E'\n'), '') FROM outbox.doctor() WHERE "check" = 'lane')) }
sub metric { return sql("SELECT value FROM outbox.metrics() WHERE name = 'outbox_lanes' AND labels @> '{\"route\": \"late\", \"state\": \"$_[0]\"}'") }
my $states = q(SELECT string_agg(DISTINCT state, ' ' ORDER BY state) FROM outbox.lag WHERE route = 'late');

sub route
{
	my ($name, $lanes, $database) = @_;
	return sql("CREATE SERVER $name FOREIGN DATA WRAPPER outbox_log; SELECT outbox.create_route('$name', server => '$name', lanes => $lanes)", $database);
}

# --- all places are another database's ---
sql('CREATE DATABASE other');
sql('CREATE EXTENSION outbox', 'other');
route('wide', 16, 'other');
ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay' AND datname = 'other'), '1', 60), 'another database has a worker');
ok(wait_until(sub { sql(q(SELECT count(*) FROM outbox.lag WHERE state = 'idle'), 'other') eq '16' }, 60), 'whose lanes have all places');
route('late', 4);
ok(wait_for_value($node, $states, 'not shown', 60), 'those of this one have none');
like(doctor(), qr/^warning 4 lanes have a relay worker and no place to show what it does/m, 'doctor() says so');
is(metric('owned') . ' ' . metric('unowned'), '4 0', 'figures count them as lanes that a worker has');

# --- places come free, and their worker is busy elsewhere ---
# (The other database's has nothing to begin a window for, and does not stand there as well.)
sql(q(SELECT outbox.pause('wide', reason => 'test')), 'other');
ok(wait_until(sub { sql(q(SELECT count(*) FROM outbox.lag WHERE state = 'paused'), 'other') eq '16' }, 60), 'the other database is paused');
Outbox::Faults::arm('window.start', 'wait');
sql(q(SELECT outbox.emit('t', 1, 'e', '{}')));
ok(wait_until(sub { -e "$ENV{OUTBOX_FAULT_DIR}/window.start.waiting" }, 60), 'their worker stands');
sql(q(SELECT outbox.drop_route('wide')), 'other');
ok(wait_until(sub { doctor() !~ /no place to show/ }, 30), 'when there are places, doctor() wants no more of them');
is(doctor(), 'ok 4 lanes have a relay worker that has not shown yet what it does.', 'and does not say that the lanes have no relay worker');
is(sql($states), 'not shown', 'nor does outbox.lag');
is(metric('owned') . ' ' . metric('unowned'), '4 0', 'nor do figures');
my (undef, undef, $notice) = $node->psql('postgres', q(SELECT outbox.wait_until_idle('100 ms')));
like($notice, qr/For 4 lanes, such as lane 0 of route "late", whose relay worker has not shown yet what it does\./, 'nor does who waits for them');
ok(-e "$ENV{OUTBOX_FAULT_DIR}/window.start.waiting", 'all of it while their worker stood');
Outbox::Faults::release('window.start');

# --- and goes on ---
ok(wait_for_value($node, $states, 'idle', 60), 'the lanes find places');
is(doctor(), 'ok 4 lanes work.', 'and doctor() sees them work');
is(sql(q(SELECT outbox.wait_until_idle('30 s'))), 't', 'who waits for them hears of it');
no_server_crashed($node);
done_testing();
