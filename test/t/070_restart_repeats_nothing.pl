# Orderly restarts, reloads, ALTER SERVER and a change of outbox.workers in the middle of a load repeat nothing.
# matrix: A4 S1 S2
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node();
my $redis = Outbox::Redis->start;
my $kafka = Outbox::Kafka::available() ? Outbox::Kafka->start : undef;
$kafka->create_topic('restarted', 2) if $kafka;
Outbox::Ledger::install($node);
redis_route($node, $redis, 'redis', topic => q('restarted'), lanes => 2);
kafka_route($node, $kafka, 'kafka', topic => q('restarted'), lanes => 2) if $kafka;

sub flowing
{
	my $before = $redis->xlen('restarted');
	for (1 .. 600) { return 1 if $redis->xlen('restarted') > $before + 200; sleep 0.05 }
	return 0;
}

my $load = Outbox::Ledger::start_load($node, seconds => 300, clients => 2, rate => 60);
my @changes = (
	[ 'ALTER SERVER', "ALTER SERVER redis OPTIONS (ADD connect_timeout '3000')" ],
	[ 'fewer workers', 'ALTER SYSTEM SET outbox.workers = 1', 'SELECT pg_reload_conf()' ],
	[ 'more workers', 'ALTER SYSTEM SET outbox.workers = 3', 'SELECT pg_reload_conf()' ],
	[ 'a reload', 'SELECT pg_reload_conf()' ],
	[ 'a new mapping', "CREATE USER MAPPING FOR PUBLIC SERVER redis", 'DROP USER MAPPING FOR PUBLIC SERVER redis' ],
	[ 'off and on', 'ALTER SYSTEM SET outbox.enabled = off', 'SELECT pg_reload_conf()', 'SELECT pg_sleep(0.3)',
		'ALTER SYSTEM SET outbox.enabled = on', 'SELECT pg_reload_conf()' ]);
foreach my $change (@changes)
{
	my ($name, @statements) = @$change;
	ok(flowing(), "events flow before $name");
	$node->safe_psql('postgres', $_) foreach @statements;
}
ok(flowing(), 'events flow after all changes');
ok(Outbox::Ledger::end_load($load), 'no session noticed');

foreach my $round (1 .. 3)
{
	$load = Outbox::Ledger::start_load($node, seconds => 30, clients => 2, rate => 60);
	ok(flowing(), "events flow before restart $round");
	$node->restart;
	Outbox::Ledger::finish($load, may_fail => 1);
}
ok(wait_idle($node), 'everything was delivered');
Outbox::Ledger::check($node, 'Redis', $redis->column('restarted', 'payload'));
SKIP:
{
	skip $ENV{OUTBOX_NO_KAFKA}, 3 unless $kafka;
	Outbox::Ledger::check($node, 'Kafka', $kafka->payloads('restarted'));
}
no_server_crashed($node);
done_testing();
