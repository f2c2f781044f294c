# In single-user mode (postgres --single) no process of outbox can be: outbox.doctor(), outbox.process and outbox.status() say so, and
# none says that one is starting, or that somebody has to see to it.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('all'));
$node->safe_psql('postgres', q(SELECT outbox.emit('order', '1', 'order.created', '{}')));
ok(wait_idle($node), 'events flow');
$node->stop;

# A statement a line; what it says comes as one line of a column.
my ($said, $told) = ('', '');
my $statements = join '', map { "$_\n" } q(SELECT 'emitted ' || outbox.emit('order', '1', 'order.created', '{}') AS said),
	q(SELECT 'doctor ' || "check" || ' ' || status || ': ' || detail || ' HINT ' || coalesce(hint, '-') AS said FROM outbox.doctor() WHERE status <> 'ok' AND "check" <> 'durability'),
	q(SELECT 'process ' || process || ' ' || state || ': ' || coalesce(detail, '-') AS said FROM outbox.process),
	q(SELECT 'status ' || state || ': ' || coalesce(reason, '-') AS said FROM outbox.status((SELECT id FROM outbox_internal.log ORDER BY created_at DESC LIMIT 1)));
IPC::Run::run([ 'postgres', '--single', '-D', $node->data_dir, 'postgres' ], '<', \$statements, '>', \$said, '2>', \$told, IPC::Run::timeout(60));
my @lines = $said =~ /said = "(.*)"\s*\(typeid/g;
diag $said, $told if !like("@lines", qr/emitted [0-9a-f-]{36}/, 'an event is emitted');
my @doctor = grep { /^doctor/ } @lines;
is(shift @doctor, 'doctor launcher warning: This server runs in single-user mode: it publishes nothing until it is started as usual. '
	  . 'HINT Start it as usual: what is emitted meanwhile is published then.', 'doctor() says it');
is(scalar(grep { !/ HINT The server has to be started as usual first/ } @doctor), 0, 'and of all else that this comes first') or diag join "\n", @doctor;
is(join(', ', grep { /^process/ } @lines), 'process launcher single-user: This server runs in single-user mode: it publishes nothing until it is started as usual.',
	'as does outbox.process');
like("@lines", qr/status \w+: this server runs in single-user mode/, 'and outbox.status()');

$node->start;
ok(wait_idle($node), 'started as usual it publishes');
is($redis->xlen('all'), 2, 'what was emitted meanwhile, too');
no_server_crashed($node);
done_testing();
