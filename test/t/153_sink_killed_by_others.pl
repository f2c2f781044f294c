# The sink process is killed from outside again and again while its broker holds everything: no event is charged with
# it, none is dead, all arrive. The log says that it ended, at once and also where it is back before anybody sees trouble, but
# not each time.
# matrix: A1k R12
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
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
sub lines { my ($pattern) = @_; return scalar(() = slurp_file($node->logfile) =~ /$pattern/g) }
my $ended = qr/LOG:  outbox: (?:a sink process|\d+ sink processes) of destination "\w+" ended unasked.*\n.*DETAIL:  What it had.*may arrive twice/;
is(lines($ended), 1, 'the log says so once, then that the destination is in trouble');
# Where it takes a busy machine more than a second to end a process, that is said without how.
is(lines(qr/outbox: a sink process of destination "\w+" ended unasked: the sink process (?:was ended by signal 9|ended$)/m), 1, 'and how it ended');
cmp_ok(sql(q{SELECT sum(deaths) FROM outbox.destination}), '>', 0, 'which is shown');
is(sql(q{SELECT count(*) FROM outbox.dead_letter}), '0', 'nothing is dead');
is(sql(q{SELECT coalesce(max(attempts), 0) FROM outbox_internal.parked}), '0', 'nothing is charged');
$redis->cont;
ok(wait_idle($node, 60), 'all are delivered');
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked}, '0', 90), 'what was set aside, too');
my %ids = map { $_ => 1 } @{ $redis->column('killed', 'id', 1000) };
is(scalar(keys %ids), 201, 'every one of them');
is(sql(q{SELECT count(*) FROM outbox.audit WHERE action <> 'create_route'}), '0', 'and no operator had to act');
ok(wait_until(sub { lines(qr/LOG:  outbox: destination "\w+" works again/) }, 60), 'the trouble is over');
# While it is busy, and back at once.
foreach my $round (1 .. 3)
{
	sql(q{SELECT count(outbox.emit('order', i % 20, 'x', '{}')) FROM generate_series(1, 3000) i});
	kill 'KILL', sink_pids($node);
	foreach my $event (1 .. 10) { sql(q{SELECT outbox.emit('order', 0, 'x', '{}')}); sleep 0.1 } # whoever is back is asked at once
	ok(wait_idle($node, 60), "killed while it is busy: all are delivered ($round)");
}
ok(wait_until(sub { lines($ended) == 2 }, 90), 'the log says that, too');
ok(wait_until(sub { lines(qr/outbox: \d+ sink processes of destination "\w+" ended unasked, one after another/) == 1 }, 1), 'of several in one line')
  or diag(grep { /ended unasked/ } split /^/, slurp_file($node->logfile));
no_server_crashed($node);
done_testing();
