# A copy that a replay sends again and the destination refuses is that copy's misfortune: later events of the key go on,
# also where on_failure = block lets nothing pass a refused event.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.max_payload_size = '4MB'\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('{aggregate_type}'), aggregate_types => q('{big}'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql(q{SELECT outbox.alter_route('redis', on_failure => 'block')});
sub comes { my ($count, $what) = @_; return ok(wait_until(sub { $redis->xlen('big') >= $count }, 30), $what) }

sql(q{SELECT outbox.emit_text('big', 'k', 'first', repeat('x', 2000000))});
sql(q{SELECT outbox.emit_text('big', 'k', 'second', 'y')});
ok(wait_idle($node), 'both are delivered');
is($redis->xlen('big'), 2, 'once');

# From now on it takes no megabyte any more.
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', '1048576');
sql(q{CALL outbox.replay(since => '-infinity', route => 'redis', event_type => 'first', per_second => NULL, dry_run => false)});
ok(wait_until(sub { sql(q{SELECT count(*) FROM outbox.dead_letter WHERE route = 'redis'}) == 1 }, 30), 'the copy is a dead letter');
sql(q{SELECT outbox.emit_text('big', 'k', 'third', 'z')});
comes(3, 'a later event of the key does not wait for it');
ok(wait_idle($node), 'nothing waits');
is(sql('SELECT count(*) FROM outbox.blocked_key'), '0', 'and no key is blocked');

# An event that is refused at first sight does hold its key: that is what block means.
sql(q{SELECT outbox.emit_text('big', 'k', 'fourth', repeat('x', 2000000))});
ok(wait_until(sub { sql(q{SELECT count(*) FROM outbox.dead_letter WHERE route = 'redis'}) == 2 }, 30), 'an event is refused');
sql(q{SELECT outbox.emit_text('big', 'k', 'fifth', 'z')});
ok(wait_until(sub { sql(q{SELECT count(*) FROM outbox.blocked_key}) == 1 }, 30), 'its key is blocked');

# Sent by hand now that it is taken again, it goes before what waited for it.
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', '536870912');
sql(q{SELECT outbox.retry(id, route, 'taken again') FROM outbox.dead_letter WHERE event_type = 'fourth'});
ok(wait_idle($node), 'all goes on');
is_deeply([ map { length $_->{payload} } @{ $redis->entries('big') } ], [ 2000000, 1, 1, 2000000, 1 ], 'in the order of the key');
no_server_crashed($node);
done_testing();
