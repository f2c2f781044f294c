# The primary dies in the middle of a load and its synchronous standby is promoted: the standby goes on publishing where
# the primary was, everything that committed arrives, and nothing arrives that the failover un-happened, not even of
# transactions that did not wait for the standby. Until then the standby has published nothing.
# matrix: B4 C1
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Test;
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes qw(sleep);

my $redis = Outbox::Redis->start;
my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', "max_prepared_transactions = 10\nlog_min_messages = info\nwal_level = replica\n");
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION outbox');
Outbox::Ledger::install($primary);
redis_route($primary, $redis, 'redis', topic => q('ledger'), lanes => 2);
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->append_conf('postgresql.conf', "synchronous_standby_names = 'standby'\n");
$primary->reload;
ok($primary->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'"), 'the standby is asked');

my @loads = (
	Outbox::Ledger::start_load($primary, seconds => 60, clients => 2, rate => 40, name => 'sync'),
	do { local $ENV{PGOPTIONS} = '-c synchronous_commit=off'; Outbox::Ledger::start_load($primary, seconds => 60, clients => 2, rate => 40, name => 'async') });
for (1 .. 600) { last if $redis->xlen('ledger') > 3000; sleep 0.05 }
cmp_ok($redis->xlen('ledger'), '>', 3000, 'events flow');
is($standby->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ '^outbox (relay|keeper)'"), '0', 'nothing runs on the standby');
is($standby->safe_psql('postgres', 'SELECT process, wanted, running, state FROM outbox.process'), 'launcher|0|0|standby', 'and nothing is said to be starting there');
$primary->kill9;
Outbox::Ledger::finish($_, may_fail => 1) foreach @loads;
my $before = $redis->xlen('ledger');
$standby->promote;
$standby->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = ''");
$standby->reload;
ok(wait_idle($standby, 60), 'the promoted standby delivers what is left');
like($standby->safe_psql('postgres', "SELECT string_agg(process || ' ' || state, ',' ORDER BY process) FROM outbox.process WHERE process <> 'all'"),
	qr/^keeper running,launcher running,relay running$/, 'and shows who runs');
my $load = Outbox::Ledger::start_load($standby, seconds => 2, clients => 2, rate => 40, name => 'after');
ok(Outbox::Ledger::finish($load), 'and takes new events');
ok(wait_idle($standby, 60), 'which are delivered');
cmp_ok($redis->xlen('ledger'), '>', $before, 'new ones arrived');
Outbox::Ledger::check($standby, 'Redis', $redis->column('ledger', 'payload'), duplicates => 1);
done_testing();
