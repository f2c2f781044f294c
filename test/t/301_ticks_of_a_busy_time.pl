# Much is committed while no lane lags, and while there is none: ticks are recorded all the same, ten a second at most, so that
# who begins with it later reads small windows and has its first event soon. Little leaves none, nor does much in a long time.
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $redis = Outbox::Redis->start;
my $node = new_node(conf => "outbox.lone_emit = allow\n");
sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql) }
sub ticks { return sql('SELECT count(*) FROM outbox_internal.tick') }
sub commits
{
	my ($from, $to) = @_;
	sql("DO \$\$ BEGIN FOR i IN $from .. $to LOOP PERFORM outbox.emit_text('t', 'k' || i % 7, 'counted', i::text); COMMIT; END LOOP; END \$\$");
	return;
}

commits(1, 10);
ok(wait_for_value($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox keeper'}, 1), 'there is a keeper, and no route');
upkeep($node); # it has begun to count
my $before = ticks();
commits(11, 900);
sleep 2; # the keeper comes round, and must record none
is(ticks(), $before, 'little is committed: no ticks');
foreach my $step (1 .. 20) { commits(801 + 100 * $step, 900 + 100 * $step); sleep 0.15 }
sleep 2;
is(ticks(), $before, 'nor when little comes again and again');
foreach my $step (1 .. 12) { commits(2101 + 800 * $step, 2900 + 800 * $step); sleep 0.15 }
ok(wait_until(sub { ticks() > $before }, 10), 'but once it is much in all');
cmp_ok(ticks() - $before, '<=', 3, 'seldom');
$before = ticks();
my $began = time;
commits(12_501, 70_000);
my $took = time - $began;
sleep 2; # no more than ten a second: time for those that must not come
my $recorded = ticks() - $before;
cmp_ok($recorded, '>=', $took * 4, "much is: they are recorded ($recorded in $took s)");
cmp_ok($recorded, '<=', ($took + 2) * 10, 'ten a second at most');

redis_route($node, $redis, 'late', topic => q('late'), start => q('earliest'));
ok(wait_until(sub { $redis->xlen('late') == 70_000 }, 60), 'a route that begins with all of it gets it');
cmp_ok(sql(q{SELECT value FROM outbox.metrics() WHERE name = 'outbox_windows_opened_total' AND labels ->> 'route' = 'late'}), '>', $recorded / 3, 'in many small windows');
my (%last, $wrong);
foreach my $entry (@{ $redis->entries('late') })
{
	$wrong++ if $entry->{payload} <= ($last{ $entry->{key} } // 0);
	$last{ $entry->{key} } = $entry->{payload};
}
is($wrong // 0, 0, 'in order');
done_testing();
