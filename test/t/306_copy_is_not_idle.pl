# A restored copy beside its original, on one server: the dump has the original's workers as owners of lanes, and these are
# alive. What they have reached is nothing that the copy has reached: it delivers nothing before adopt(), and is not idle.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 1\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('s'));
$node->safe_psql('postgres', q(SELECT outbox.emit('a', '1', 'e', '{}')));
# Each asks for one more barrier: the original is many ahead of what the copy will ask for.
is($node->safe_psql('postgres', q(SELECT outbox.wait_until_idle('30 s'))), 't', 'the original is idle') for 1 .. 5;
$node->safe_psql('postgres', q(SELECT outbox.pause('r', reason => 'for the dump'); SELECT outbox.emit('a', '1', 'late', '{}')));
isnt($node->safe_psql('postgres', 'SELECT owner FROM outbox_internal.lane'), '', 'its lane has an owner');

foreach my $n (1 .. 2)
{
	my $copy = "copy$n";
	my $file = $node->basedir . "/$copy";
	$node->command_ok([ 'pg_dump', '-F', 'custom', '-f', $file, 'postgres' ], "$copy: dumped");
	$node->safe_psql('postgres', "CREATE DATABASE $copy TEMPLATE template0");
	$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $copy, $file ], 'and restored');
	my ($code, $out, $err) = $node->psql($copy, q(SELECT outbox.wait_until_idle('0'), outbox.wait_until_idle('1 s')));
	is($out, 'f|f', 'it is not idle: what came with the dump waits for adopt()');
	like($err, qr/came by a dump: outbox\.adopt\(\)/, 'which is said');
	$node->safe_psql($copy, q(SELECT outbox.resume('r'); SELECT outbox.emit('a', '2', 'here', '{}')));
	is($node->safe_psql($copy, q(SELECT outbox.wait_until_idle('1 s'))), 'f', 'nor with an event of its own');
}
is($node->safe_psql('copy2', q(SELECT outbox.adopt())) > 0 ? 1 : 0, 1, 'adopted');
is($node->safe_psql('copy2', q(SELECT outbox.wait_until_idle('60 s'))), 't', 'it comes to be idle');
is($redis->xlen('s'), 3, 'with what was undelivered delivered');
no_server_crashed($node);
done_testing();
