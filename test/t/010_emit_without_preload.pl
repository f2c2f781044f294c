# A server that does not preload the module: events are still written, the user is told once per session what will not
# happen, and CREATE EXTENSION tells how to preload.
# matrix: C14
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(extension => 0);
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\nsession_preload_libraries = ''\n");
$node->restart;

# Not in the place of other libraries, which a line that is added at the end would take.
my $line = "beside what\\s+is there.*" . quotemeta "shared_preload_libraries = 'outbox' where nothing is";
my ($status, $stdout, $stderr) = $node->psql('postgres', 'CREATE EXTENSION outbox');
is($status, 0, 'the extension installs');
like($stderr, qr/WARNING:  outbox is installed, but not preloaded.*HINT: .*$line/s, 'and says how to preload');

($status, $stdout, $stderr) = $node->psql('postgres', q{
	SELECT outbox.emit('order', 1, 'first', '{}') IS NOT NULL;
	SELECT outbox.emit('order', 1, 'second', '{}') IS NOT NULL;
	SELECT cardinality(outbox.emit_many('order', NULL, 'third', '{1,2}'));
});
is($stdout, "t\nt\n2", 'events are written');
is(() = $stderr =~ /WARNING/g, 1, 'one warning per session');
like($stderr, qr/WARNING:  outbox is not preloaded.*DETAIL: .*HINT: .*$line/s, 'it says what will not happen, and the remedy');
(undef, undef, $stderr) = $node->psql('postgres', q{SELECT outbox.emit('order', 1, 'fourth', '{}')});
like($stderr, qr/WARNING:  outbox is not preloaded/, 'every session is told');

is($node->safe_psql('postgres', 'SELECT string_agg(event_type, \',\' ORDER BY created_at) FROM outbox_internal.log'),
	'first,second,third,third,fourth', 'in the order of this session');
is($node->safe_psql('postgres', q{BEGIN; SELECT outbox.emit('order', 1, 'own', '{}') IS NOT NULL; SELECT event_type FROM outbox.event; ROLLBACK}),
	"t\nown", 'the view works too');

# The module may be loaded by session_preload_libraries or LOAD: no worse.
is($node->safe_psql('postgres', q{LOAD 'outbox'; SELECT outbox.emit('order', 1, 'loaded', '{}') IS NOT NULL}), 't', 'after LOAD');

# No two events of several sessions have one created_at: positions and replays count on that.
append_to_file($node->basedir . '/emit.sql', "SELECT outbox.emit_many('many', NULL, 'e', '{1,2,3}');\n");
$node->command_ok([ 'pgbench', '-n', '-c', '4', '-t', '500', '-f', $node->basedir . '/emit.sql', 'postgres' ], 'four sessions emit at once');
is($node->safe_psql('postgres', q{SELECT count(*), count(DISTINCT created_at) FROM outbox_internal.log WHERE aggregate_type = 'many'}), '6000|6000', 'each event has a created_at of its own');

# Of routes, too, a session is told once.
(undef, undef, $stderr) = $node->psql('postgres', "CREATE SERVER gone FOREIGN DATA WRAPPER outbox_null;\n" . join '', map { "SELECT outbox.create_route('r$_', server => 'gone');\n" } 1 .. 3);
is(() = $stderr =~ /WARNING:  the route is kept, but nothing publishes its events/g, 1, 'routes: one warning per session');
like($stderr, qr/WARNING:  the route is kept.*HINT: .*$line/s, 'with the remedy');
(undef, undef, $stderr) = $node->psql('postgres', q{SELECT outbox.wait_until_idle('1 s')});
like($stderr, qr/ERROR:  no worker of outbox can run on this server.*HINT: .*$line/s, 'nobody waits for workers that cannot run');
like($node->safe_psql('postgres', q{SELECT hint FROM outbox.doctor() WHERE "check" = 'preload'}), qr/shared_preload_libraries = 'outbox'/, 'doctor() says the same');

# With preload, everything written before is still there, and no session is warned.
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'outbox'\n");
$node->restart;
($status, $stdout, $stderr) = $node->psql('postgres', q{SELECT outbox.emit('order', 1, 'preloaded', '{}') IS NOT NULL});
is($stdout . $stderr, 't', 'no warning once preloaded');
is($node->safe_psql('postgres', q(SELECT count(*) FROM outbox_internal.log WHERE aggregate_type = 'order')), '7', 'all events are there');
no_server_crashed($node);
done_testing();
