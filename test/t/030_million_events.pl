# A million events, several sessions, random rollbacks and savepoints: nothing lost, added, repeated or reordered per key,
# in Redis and in Kafka at the same time. OUTBOX_TEST_EVENTS sets another number. (Without Apache Kafka: a tenth of it, as
# librdkafka's mock cluster keeps everything in memory and loses what does not fit.)
# matrix: F1 B1
# ring: long
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

my $events = $ENV{OUTBOX_TEST_EVENTS} // (Outbox::Kafka::available() ? 1_000_000 : 100_000);
my $per_key = 15;
my $per_transaction = $per_key * $Outbox::Ledger::KEYS_PER_TRANSACTION;

my $node = new_node(conf => "fsync = off\nmax_wal_size = 4GB\n");
my $redis = Outbox::Redis->start(conf => ['appendfsync everysec']);
my $kafka = Outbox::Kafka->start_any;
$kafka->create_topic('million', 4);
Outbox::Ledger::install($node);
redis_route($node, $redis, 'redis', topic => q('million'));
kafka_route($node, $kafka, 'kafka', topic => q('million'), lanes => 2);

my $start = time;
my $load = Outbox::Ledger::start_load($node, transactions => $events / $per_transaction * 7 / 6 * 1.02, clients => 4,
	events => $per_key);
ok(Outbox::Ledger::finish($load), 'the load ran to its end');
my $emitted = time;
my $total = Outbox::Ledger::total($node);
cmp_ok($total, '>=', 0.95 * $events, "$total events were committed");
ok(wait_idle($node, 200), 'everything was delivered');
note(sprintf 'emitted in %.1f s, delivered %.1f s later', $emitted - $start, time - $emitted);

Outbox::Ledger::check($node, 'Redis', $redis->column('million', 'payload'));
Outbox::Ledger::check($node, 'Kafka', $kafka->payloads('million'));
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing was parked');
no_server_crashed($node);
done_testing();
