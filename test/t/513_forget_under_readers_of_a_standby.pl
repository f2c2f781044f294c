# On a hot standby somebody is in the middle of a row that outbox.forget() erases on the primary: the standby waits for him, as
# it does with vacuum; what he reads is the row as it was, and no session crashes.
# matrix: G9
use strict;
use warnings;

use IPC::Run ();
use Outbox::Test;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', "log_min_messages = info\noutbox.workers = 0\noutbox.lone_emit = allow\n");
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION outbox');
$primary->safe_psql('postgres', 'CREATE TABLE pruned AS SELECT 1 AS n');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\nhot_standby_feedback = on\nwal_receiver_status_interval = 1s\n");
$standby->start;

sub kept { my ($node) = @_; return $node->safe_psql('postgres', q{SELECT count(*) FROM outbox_internal.log WHERE octet_length(payload) > 0 OR headers <> '{}'}) }
# Waits in the middle of a row, with pointers into it, until the gate is opened; then writes them out.
my $gate = $standby->background_psql('postgres', on_error_stop => 1);
my %payload = (short => q('{"secret": "' || repeat('y', 300) || '"}'), compressed => q('{"secret": "' || repeat('y', 4000) || '"}'),
	toasted => q('{"secret": "' || (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 1000) n) || '"}'));

foreach my $key (sort keys %payload)
{
	$primary->safe_psql('postgres', qq{SELECT outbox.emit('a', '$key', 'type', ($payload{$key})::jsonb, '{"h": "hidden"}', topic => 'topical')});
	$primary->wait_for_catchup($standby);
	$gate->query_safe('SELECT pg_advisory_lock(1)');
	my ($out, $err) = ('', '');
	my $reader = IPC::Run::start([ 'psql', '-XAtd', $standby->connstr('postgres'), '-c',
			"SELECT pg_advisory_lock_shared(1), l.* FROM outbox_internal.log l WHERE aggregate_id = '$key'" ],
		'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(180));
	ok(wait_for_value($standby, q(SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_advisory_lock_shared%' AND wait_event = 'advisory'), 1), "$key: it is read");
	# Dead rows that the primary prunes meanwhile (any page that is read there may be) would stop the standby before it comes to the row:
	# for the reader's snapshot, not for his pin. It prunes none once it has been told of the snapshot.
	my $snapshot = $standby->safe_psql('postgres', q(SELECT backend_xmin FROM pg_stat_activity WHERE query LIKE 'SELECT pg_advisory_lock_shared%' AND wait_event = 'advisory'));
	ok(wait_for_value($primary, q(SELECT backend_xmin FROM pg_stat_replication), $snapshot), 'the primary keeps what he may see');
	$primary->safe_psql('postgres', $_) foreach 'UPDATE pruned SET n = n + 1', 'VACUUM pruned';
	is($primary->safe_psql('postgres', "CALL outbox.forget('a', '$key', dry_run => false)"), '1|0', 'and erased on the primary');
	my $lsn = $primary->safe_psql('postgres', 'SELECT pg_current_wal_flush_lsn()');
	my $went_on = "pg_last_wal_replay_lsn() >= '$lsn'";
	my $waits = q(EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event IN ('BufferPin', 'BufferCleanup')));
	ok(wait_until(sub { $standby->safe_psql('postgres', "SELECT $went_on OR $waits") eq 't' }, 60), 'the standby has come to it')
		or diag($standby->safe_psql('postgres', q{SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE backend_type = 'startup'}));
	is($standby->safe_psql('postgres', "SELECT $went_on"), 'f', 'and waits for who reads');
	$gate->query_safe('SELECT pg_advisory_unlock(1)');
	$reader->finish;
	is($err, '', 'the reader has no error');
	like($out, qr/\|a\|$key\|type\|\\x7b22[0-9a-f]*227d\|\|\{"h": "hidden"\}\|topical\|/, 'and the row as it was');
	$primary->wait_for_catchup($standby);
	is(kept($standby), '0', 'then it is erased there');
}
$gate->quit;
no_server_crashed($primary);
no_server_crashed($standby);
done_testing();
