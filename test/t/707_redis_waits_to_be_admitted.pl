# A Redis that was restarted waits to be admitted for longer than a connection may be quiet, because a table that this takes is
# locked: that is what is said of it, and not that it was a replica meanwhile; it keeps its connection.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start(conf => [ 'appendonly yes', 'appendfsync always' ]);
sub sql { return $node->safe_psql('postgres', $_[0]) }
redis_route($node, $redis, 'r', topic => q('s'));
emit_counted($node, 's', ['k'], 1, 10);
ok(wait_idle($node), 'idle');

my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE outbox_internal.server_run IN ACCESS EXCLUSIVE MODE');
$redis->kill9;
$redis->restart;
emit_counted($node, 's', ['k'], 11, 20);
my $trouble = 'SELECT error_code FROM outbox.destination';
ok(wait_for_value($node, $trouble, 'LOCKED', 20), 'a lock is in the way') or diag(sql('TABLE outbox.destination'));
ok(wait_for_value($node, 'SELECT error_code FROM outbox.lag', 'LOCKED', 10), 'outbox.lag says so, too') or diag(sql('TABLE outbox.lag'));
my ($log, $connections) = (-s $node->logfile, $redis->connections);
sub pings { return ($redis->command('INFO', 'commandstats') =~ /cmdstat_ping:calls=(\d+)/)[0] // 0 }
my $pings = pings();
ok(wait_until(sub { pings() > $pings }, 30), 'the connection that waits is found quiet, and tried');
is($redis->connections, $connections, 'and kept');
is(sql($trouble), 'LOCKED', 'the lock is in the way still');
is($redis->xlen('s'), 10, 'nothing was sent');
$holder->query_safe('COMMIT');
$holder->quit;
ok(wait_until(sub { $redis->xlen('s') == 20 }, 20), 'all is sent when it is gone');
ok(wait_for_value($node, q(SELECT state || coalesce(error_code, '') FROM outbox.destination), 'closed', 20), 'and the destination is well');
unlike(slurp_file($node->logfile), qr/HISTORY/, "the server's log says nothing of a replica");
no_server_crashed($node);
done_testing();
