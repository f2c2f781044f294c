# peek() shows what waits for a topic that has left its lane, once the lane has passed it, as before: each event once, and up to the limit.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('{event_type}'), lanes => 2);
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub peek { my ($limit) = @_; return sql("SELECT string_agg(event_type || ' ' || n, ',' ORDER BY event_type) FROM (SELECT event_type, count(*) || ' ' || count(DISTINCT id) AS n FROM outbox.peek('r', $limit) GROUP BY event_type) p") }
sql(q(SELECT outbox.pause('r', topic => 'held', reason => 'x'); SELECT outbox.pause('r', topic => 'kept', reason => 'x')));
sql(q(SELECT outbox.emit('o', 'k' || g % 5, 'held', '{}') FROM generate_series(1, 20) g; SELECT outbox.emit('o', 'k' || g % 5, 'kept', '{}') FROM generate_series(1, 3) g));
sql(qq(SELECT outbox.emit('o', 'k' || g, 'free', '{}') FROM generate_series(1, 9) g)) for 1 .. 2;
ok(wait_until(sub { $redis->xlen('free') == 18 }), 'what is not paused is sent');
# The positions of the lanes are saved behind what has left them.
sql('SELECT outbox.emit(\'o\', \'k\' || g, \'free\', \'{}\') FROM generate_series(1, 9) g');
ok(wait_until(sub { sql(q(SELECT count(*) FROM outbox.lag WHERE route = 'r' AND topic IS NULL AND pending = 0)) eq '2' && $redis->xlen('free') == 27 }), 'and passed');
ok(wait_until(sub { peek('NULL') eq 'held 20 20,kept 3 3' }), 'all that waits is shown, once');
is(sql(q(SELECT max(n) FROM (SELECT count(*) AS n FROM outbox.peek('r', 2) GROUP BY lane, event_type) p)), '2', 'up to the limit');
sql(q(SELECT outbox.resume('r', topic => 'held')));
ok(wait_until(sub { $redis->xlen('held') == 20 && peek('NULL') eq 'kept 3 3' }), 'what goes on is gone from it');
done_testing();
