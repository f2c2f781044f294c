# matrix: E-5
# A stream whose ids are ahead of the Redis server's clock, since another client gave it one of tomorrow, is named by
# doctor() while we write to it, and not when its ids are the clock's again.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node();
redis_route($node, $redis, 'redis', topic => q('events'));
my $doctor = q{SELECT status || ': ' || detail FROM outbox.doctor() WHERE "check" = 'destination' AND detail LIKE '%"redis"%'};
my $events = 0;
# Otherwise it is looked at twice a minute; and what was written is known from the connection before.
sub look_again
{
	$node->safe_psql('postgres', q{SELECT outbox.emit('order', 1, 'e', '{}')});
	ok(wait_idle($node), 'an event is delivered');
	is($redis->xlen('events'), ++$events, 'to Redis');
	$redis->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
	return;
}
look_again();
my $tomorrow = (time + 86_400) * 1000;
$redis->command('XADD', 'events', "$tomorrow-0", 'their', 'own');
$events++;
look_again();
ok(wait_until(sub { $node->safe_psql('postgres', $doctor) =~ /^warning: Destination "redis" works, but IDS_AHEAD: stream "events" gives ids that are ahead of the Redis server's clock, by 86\d\d\d s/ }, 30),
	'doctor() warns') or diag($node->safe_psql('postgres', $doctor));
is($node->safe_psql('postgres', q{SELECT state || ' ' || error_code FROM outbox.destination WHERE server = 'redis'}), 'closed IDS_AHEAD', 'the destination is used');
$redis->command('DEL', 'events');
$events = 0;
look_again();
ok(wait_until(sub { $node->safe_psql('postgres', $doctor) eq '' }, 30), 'until the stream is made again') or diag($node->safe_psql('postgres', $doctor));
no_server_crashed($node);
done_testing();
