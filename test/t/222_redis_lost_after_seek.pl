# A Redis loses what it was sent again by seek(): all of it is sent once more, also what had been delivered from where it
# was parked before the seek; and what was given up is not.
# matrix: S6 E-5
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
redis_route($node, $redis, 'r', topic => q('t'), lanes => 2, start => q('earliest'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub there { return by_key([ map { $_->{payload} } @{ $redis->entries('t') } ]) }
sub comes { my ($count, $what) = @_; return ok(wait_until(sub { $redis->xlen('t') >= $count }, 60), $what) || diag($redis->xlen('t')) }
sub lose { $redis->kill9; $redis->restart; return }

# Three by the log, three from where they were parked, one given up.
sql(q{SELECT outbox.pause('r', aggregate_type => 'e', aggregate_id => 'p', reason => 'a test')});
emit_counted($node, 'e', [qw(l p)], 1, 3);
comes(3, 'what is not paused arrives');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '3', 60), 'the rest is parked');
my $given_up = sql(q{SELECT id FROM outbox_internal.parked ORDER BY created_at LIMIT 1});
is(sql("SELECT outbox.skip('$given_up', 'a test')"), '1', 'one of them is given up');
sql(q{SELECT outbox.resume('r', aggregate_type => 'e', aggregate_id => 'p')});
comes(5, 'the others arrive');
ok(wait_idle($node), 'idle');
is(sql(q{CALL outbox.seek('r', '-infinity', dry_run => false)}), '5|0', 'the route begins again');
comes(10, 'all of it comes again');
ok(wait_idle($node), 'idle');
emit_counted($node, 'e', [qw(l p)], 4, 4);
comes(12, 'and what is new');
ok(wait_idle($node), 'idle');

foreach my $time (1, 2)
{
	lose();
	comes(7, "lost, $time: it is all sent again");
	ok(wait_idle($node), 'idle');
	is_deeply(there(), { l => '1 2 3 4', p => '2 3 4' }, 'each once, in order, and not what was given up');
}
is(sql(q{SELECT count(*) >= 2 FROM outbox.audit WHERE action = 'rewind'}), 't', 'lanes were put back for that');
no_server_crashed($node);
done_testing();
