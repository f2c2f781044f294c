# Only a lane's owner may move its position. A lane is given to workers that do not exist, over and over, while it is
# read: its owner lets go, a live worker claims it again, nothing is lost and nothing overtakes.
# matrix: B7 B8
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(conf => "outbox.workers = 3\noutbox.max_inflight = '1MB'\n");

sub sql { return $node->safe_psql('postgres', $_[0]) }

my $events = 60_000;
sql("SELECT count(outbox.emit('t', i % 50, 'e', to_jsonb(i))) FROM generate_series(1, $events) i");
redis_route($node, $redis, 'r', start => "'earliest'", lanes => 2);

my %owners;
my $taken = 0;
foreach (1 .. 8)
{
	# However slow this session is, not all is delivered before the lane has been taken away twice.
	$redis->command('CLIENT', 'PAUSE', 1000, 'WRITE') if $taken < 2;
	last if $redis->xlen('outbox.event.t') >= $events;
	my $owner = sql('SELECT owner FROM outbox_internal.lane WHERE lane = 1');
	$owners{$owner}++ if $owner ne '';
	sql('UPDATE outbox_internal.lane SET owner = 42 WHERE lane = 1 AND owner <> 42');
	$taken++;
	wait_for_value($node, 'SELECT owner IS DISTINCT FROM 42 FROM outbox_internal.lane WHERE lane = 1', 't')
	  or last;
}
cmp_ok($taken, '>', 1, "the lane was taken away $taken times");
ok(!exists $owners{42} || keys %owners > 1, 'and claimed again by workers that live');
ok(wait_idle($node), 'everything is delivered');

my (%last, %seen, $overtakes);
foreach my $entry (@{ $redis->entries('outbox.event.t') })
{
	next if $seen{ $entry->{id} }++;
	$overtakes++ if ($last{ $entry->{key} } // 0) > $entry->{created_at};
	$last{ $entry->{key} } = $entry->{created_at};
}
is(scalar(keys %seen), $events, 'no event is missing');
is($overtakes // 0, 0, 'and the first occurrences of each key are in order');
is(sql('SELECT count(*) FROM outbox_internal.parked'), 0, 'none is parked');
is(sql("SELECT count(*) FROM outbox_internal.lane WHERE owner = 42"), 0, 'no lane is left to a worker that does not exist');

no_server_crashed($node);
done_testing();
