# The sink process is killed from outside again and again while its broker holds everything: no event is charged with
# it, none is dead, all arrive.
# matrix: A1k R12
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'killed', topic => q('killed'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql(q{SELECT outbox.emit('order', 0, 'x', '{}')});
ok(wait_idle($node, 60), 'an event is delivered');

$redis->pause;
sql(q{SELECT count(outbox.emit('order', i % 20, 'x', '{}')) FROM generate_series(1, 200) i});
my $kills = 0;
my $until = time + 18;
while (time < $until || ($kills < 20 && time < $until + 60))
{
	$kills += kill 'KILL', sink_pids($node);
	sleep 0.2;
}
cmp_ok($kills, '>=', 20, "killed $kills times");
cmp_ok(sql(q{SELECT sum(deaths) FROM outbox.destination}), '>', 0, 'which is shown');
is(sql(q{SELECT count(*) FROM outbox.dead_letter}), '0', 'nothing is dead');
is(sql(q{SELECT coalesce(max(attempts), 0) FROM outbox_internal.parked}), '0', 'nothing is charged');
$redis->cont;
ok(wait_idle($node, 60), 'all are delivered');
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked}, '0', 90), 'what was set aside, too');
my %ids = map { $_ => 1 } @{ $redis->column('killed', 'id', 1000) };
is(scalar(keys %ids), 201, 'every one of them');
is(sql(q{SELECT count(*) FROM outbox.audit WHERE action <> 'create_route'}), '0', 'and no operator had to act');
no_server_crashed($node);
done_testing();
