# A Redis that throws whole streams away when its memory is full (maxmemory-policy allkeys-...) is used, and doctor() warns
# of it, until that is mended.
# matrix: E-4
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $redis = Outbox::Redis->start(conf => [ 'maxmemory 200mb', 'maxmemory-policy allkeys-lru' ]);
my $node = new_node();
redis_route($node, $redis, 'redis', topic => q('events'));
$node->safe_psql('postgres', q{SELECT outbox.emit('order', 1, 'e', '{}')});
ok(wait_idle($node), 'events are delivered');
is($redis->xlen('events'), 1, 'to a Redis that may evict them');
my $doctor = q{SELECT status || ': ' || detail FROM outbox.doctor() WHERE "check" = 'destination' AND detail LIKE '%"redis"%'};
ok(wait_until(sub { $node->safe_psql('postgres', $doctor) =~ /^warning: Destination "redis" works, but EVICTION: .*maxmemory-policy is allkeys-lru; noeviction/ }, 20), 'doctor() warns')
	or diag($node->safe_psql('postgres', $doctor));
is($node->safe_psql('postgres', q{SELECT state || ' ' || error_code FROM outbox.destination WHERE server = 'redis'}), 'closed EVICTION', 'the destination is open for events');
$redis->command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
$redis->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');    # otherwise it is looked at twice a minute
$node->safe_psql('postgres', q{SELECT outbox.emit('order', 2, 'e', '{}')});
ok(wait_idle($node), 'events go on');
ok(wait_until(sub { $node->safe_psql('postgres', $doctor) eq '' }, 20), 'until the policy is another one') or diag($node->safe_psql('postgres', $doctor));
no_server_crashed($node);
done_testing();
