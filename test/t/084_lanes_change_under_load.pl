# The number of a route's lanes grows and shrinks under load: every key's events arrive in order, each exactly once; also
# when the number is changed back and forth, when the operator changes it again, and after a crash in the middle.
# matrix: S2
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node(conf => "outbox.workers = 2\n");
my $redis = Outbox::Redis->start;
Outbox::Ledger::install($node);
redis_route($node, $redis, 'redis', topic => q('changed'));

sub flowing
{
	my $before = $redis->xlen('changed');
	for (1 .. 600) { return 1 if $redis->xlen('changed') > $before + 200; sleep 0.05 }
	return 0;
}

my $state = "SELECT r.lanes, r.lanes_wanted IS NULL, r.common_snapshot IS NULL, count(*), count(l.owner) > 0"
  . " FROM outbox.route r JOIN outbox_internal.lane l ON l.route_id = r.id GROUP BY r.id";

sub wanted
{
	my ($lanes) = @_;
	return $node->safe_psql('postgres', "SELECT outbox.alter_route('redis', lanes => $lanes)");
}

sub happened
{
	my ($lanes, $name) = @_;
	return ok(wait_for_value($node, $state, "$lanes|t|t|$lanes|t", 60), $name);
}

my $load = Outbox::Ledger::start_load($node, seconds => 600, clients => 2, rate => 60);
ok(flowing(), 'events flow');
foreach my $lanes (4, 2, 4, 1, 3)
{
	wanted($lanes);
	happened($lanes, "$lanes lanes under load");
	ok(flowing(), "events flow through $lanes");
}
wanted($_) foreach 5, 6, 2;
happened(2, 'the last wish counts');
wanted($_) foreach 4, 2;
happened(2, 'a change taken back');
ok(flowing(), 'events flow');
ok(Outbox::Ledger::end_load($load), 'no session noticed');

# Right behind a change, waiting means waiting for the new lanes too.
$load = Outbox::Ledger::start_load($node, name => 'burst', transactions => 100, clients => 2);
ok(Outbox::Ledger::finish($load), 'a burst');
wanted(3);
ok(wait_idle($node), 'idle right behind a change');
is($redis->xlen('changed'), Outbox::Ledger::total($node), 'then all has arrived');
happened(3, 'also where no events come');
$node->restart;
$load = Outbox::Ledger::start_load($node, transactions => 100, clients => 2);
ok(Outbox::Ledger::finish($load), 'events after a restart');
ok(wait_idle($node), 'everything was delivered');
Outbox::Ledger::check($node, 'Redis', $redis->column('changed', 'payload'));
is($node->safe_psql('postgres', "SELECT count(*) FROM outbox.lag WHERE error_class IS NOT NULL"), '0', 'no lane is in trouble');

# Parked events go with their keys: the hash is FNV-1a, folded, as format/route_spec.h promises.
sub lane_of
{
	my ($bytes, $lanes) = @_;
	my $hash = 2166136261;
	$hash = (($hash ^ ord) * 16777619) & 0xffffffff foreach split //, $bytes;
	return ($hash ^ ($hash >> 16)) % $lanes;
}
$node->safe_psql('postgres', "INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id,
	event_type, topic, error_class, error_code, error_message)
  SELECT r.id, 0, now(), gen_random_uuid(), 'order', CASE WHEN k > 3 THEN 'k' || k END, 'x', 'changed', 'message', 'X', 'x'
  FROM outbox.route r, generate_series(1, 40) k");
wanted(7);
happened(7, 'seven lanes');
my (%lanes, @wrong);
foreach my $row (split /\n/, $node->safe_psql('postgres',
	"SELECT lane, coalesce(aggregate_id, ''), replace(id::text, '-', '') FROM outbox_internal.parked"))
{
	my ($lane, $key, $id) = split /\|/, $row;
	$lanes{$lane} = 1;
	push @wrong, $row if $lane != lane_of($key ne '' ? $key : pack('H*', $id), 7);
}
is(join(' ', @wrong), '', 'parked events belong to the lanes of their keys');
cmp_ok(scalar keys %lanes, '>', 3, 'which are several');
$node->safe_psql('postgres', 'SET outbox.allow_loss = on; DELETE FROM outbox_internal.parked');
wanted(3);
happened(3, 'three again');

# No worker, no change; a backlog of the old lanes is shared by the new ones.
$node->append_conf('postgresql.conf', 'outbox.workers = 0');
$node->reload;
ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'", '0'), 'workers off');
$load = Outbox::Ledger::start_load($node, transactions => 100, clients => 2);
ok(Outbox::Ledger::finish($load), 'a backlog');
wanted(4);
ok(wait_for_value($node, 'SELECT common_snapshot IS NOT NULL FROM outbox.route', 't'), 'the lanes know where to meet');
is($node->safe_psql('postgres', 'SELECT lanes FROM outbox.route'), '3', 'and wait for workers');
$node->append_conf('postgresql.conf', 'outbox.workers = 2');
$node->reload;
happened(4, 'workers bring them there');
ok(wait_idle($node), 'the backlog was delivered');
Outbox::Ledger::check($node, 'backlog', $redis->column('changed', 'payload'));

# Crashes at any moment of a change.
foreach my $crash ([ 5, 0 ], [ 1, 0.05 ], [ 4, 0.15 ])
{
	my ($lanes, $after) = @$crash;
	$load = Outbox::Ledger::start_load($node, seconds => 60, clients => 2, rate => 60);
	ok(flowing(), 'events flow before a crash');
	wanted($lanes);
	sleep $after;
	$node->stop('immediate');
	$node->start;
	Outbox::Ledger::finish($load, may_fail => 1);
	happened($lanes, "changed in spite of a crash after $after s");
}
ok(wait_idle($node), 'everything was delivered');
Outbox::Ledger::check($node, 'after crashes', $redis->column('changed', 'payload'), duplicates => 1);
no_server_crashed($node);
done_testing();
