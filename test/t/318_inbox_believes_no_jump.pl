# Marks of ids without a time go by this server's clock alone. Where outbox is preloaded a clock that jumps ahead is not believed
# at once: an id that was handled hours ago is no new one for it.
use strict;
use warnings;

use Outbox::Clock;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $clock = PostgreSQL::Test::Utils::tempdir();
Outbox::Clock::prepare($clock);
my $node = Outbox::Clock::with(sub { new_node() });
sub received { return $node->safe_psql('postgres', "SELECT outbox.receive('u', " . ($_[0] // 'gen_random_uuid()') . ')') }

my $id = q('b8e89df3-781a-4541-b8af-37281a4ba0e7');
is(received($id), 't', 'an id without a time');
foreach my $days (20, 40, 60)
{
	Outbox::Clock::set($days * 86400);
	is(received(), 't', "another one, when the clock is $days days ahead");
}
Outbox::Clock::set(0);
is(received($id), 'f', 'the first one is known when the clock is right again');
no_server_crashed($node);
done_testing();
