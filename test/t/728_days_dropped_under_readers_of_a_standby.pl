# On a hot standby somebody reads the log while the primary drops a day of it: the standby waits for him for
# max_standby_streaming_delay, then cancels his query, or ends his session where it is idle in its transaction; hot_standby_feedback
# does not keep it from that. Whoever begins afterwards reads what is left.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', "log_min_messages = info\noutbox.retention = '1h'\noutbox.lone_emit = allow\n");
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION outbox');
$primary->safe_psql('postgres', q(SELECT outbox.emit('a', 'k', 'e', '1')));
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = 1s\nhot_standby_feedback = on\n");
$standby->start;
$primary->wait_for_catchup($standby);
sub first_day { return $_[0]->safe_psql('postgres', q(SELECT count(*) FROM outbox_internal.log WHERE payload = '1')) }
is(first_day($standby), 1, 'the standby has the event');

my $idle = IPC::Run::start([ 'psql', '-XAtd', $standby->connstr('postgres') ], '<', \my $typed, '>', \my $idle_out, '2>', \my $idle_err, IPC::Run::timeout(120));
$typed = "BEGIN;\nSELECT name FROM outbox.route;\nSELECT count(*) FROM outbox.day;\nSELECT count(*) FROM outbox_internal.log;\n";
ok(wait_until(sub { $idle->pump_nb; $standby->safe_psql('postgres', q(SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query ~ 'internal.log')) eq '1' }), 'and somebody who has read is idle');
Outbox::Faults::shift_clock(4 * 86400 * 1_000_000);
my $there = q(SELECT count(*) > 0 FROM outbox_internal.log WHERE created_at > now() + interval '3 days');
my ($out, $err) = ('', '');
my $reader = IPC::Run::start([ 'psql', '-XAtd', $standby->connstr('postgres'), '-c', 'SELECT count(*), pg_sleep(100) FROM outbox_internal.log' ],
	'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(120));
ok(wait_for_value($standby, q(SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'), 1), 'somebody reads there');
ok(wait_until(sub {
	$primary->safe_psql('postgres', q(SELECT outbox.emit('a', 'k', 'e', '2')));
	$primary->reload;    # the keeper looks for what is over at once
	return $primary->safe_psql('postgres', $there) eq 't' && first_day($primary) eq '0';
}, 60), 'four days on the day is dropped');
$reader->finish;
like($err, qr/canceling statement due to conflict with recovery.*holding a relation lock/s, 'who has read for longer than the standby waits is cancelled');
ok(wait_until(sub { slurp_file($standby->logfile) =~ /terminating connection due to conflict with recovery/ }), 'who is idle has lost his session');
ok(wait_until(sub { first_day($standby) eq '0' }), 'the day is gone there, too');
is($standby->safe_psql('postgres', q(SELECT confl_lock > 0 FROM pg_stat_database_conflicts WHERE datname = 'postgres')), 't', 'which is what the standby has counted');
$idle->kill_kill;
no_server_crashed($primary);
no_server_crashed($standby);
done_testing();
