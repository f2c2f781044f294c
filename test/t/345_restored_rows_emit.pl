# A dump of a table with a trigger that emits, restored apart, schema first: doctor() tells what that has emitted, and the
# way of the page emits nothing.
# matrix: C5
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(extension => 0, conf => "outbox.lone_emit = allow\nmax_worker_processes = 24\n");
my $directory = $node->basedir;
sub dump_of
{
	my ($database) = @_;
	$node->command_ok([ 'pg_dump', '-Fc', '-f', "$directory/$database", '-d', $node->connstr($database) ], "$database is dumped");
	return "$directory/$database";
}
sub delivers
{
	my ($database, $wanted, $what) = @_;
	$redis->command('DEL', 'events');
	$node->safe_psql($database, 'SELECT outbox.adopt()');
	is($node->safe_psql($database, q{SELECT outbox.wait_until_idle('60 s')}), 't', "$database delivers");
	is(join(' ', map { $_->{type} } @{ $redis->entries('events') }), $wanted, $what);
	return;
}
my $server = "CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')";
my $route = q{SELECT outbox.create_route('main', server => 'redis', topic => 'events')};

# --- tables with triggers that emit ---
$node->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(rows apart disabled);
$node->safe_psql('rows', "CREATE EXTENSION outbox; $server; $route; CREATE TABLE orders (id int PRIMARY KEY)");
$node->safe_psql('rows', q{CREATE TRIGGER emits AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'id');
	INSERT INTO orders SELECT generate_series(1, 3)});
is($node->safe_psql('rows', q{SELECT outbox.wait_until_idle('60 s')}), 't', 'the original delivers');
my $rows = dump_of('rows');
sub emitted { my ($database) = @_; return ($node->safe_psql($database, q{SELECT detail FROM outbox.doctor() WHERE "check" = 'identity'}) =~ /stays silent\.(.*)/)[0] }
foreach my $database (qw(apart disabled))
{
	$node->command_ok([ 'pg_restore', '--exit-on-error', '-s', '-d', $node->connstr($database), $rows ], "$database: the schema is restored");
	my @parts = $database eq 'apart' ? ([]) : ([ '-n', 'public', '--disable-triggers' ], [ '-N', 'public' ]);
	$node->command_ok([ 'pg_restore', '--exit-on-error', '-a', @$_, '-d', $node->connstr($database), $rows ], "and the data @$_") foreach @parts;
}
is(emitted('apart'), ' 3 events have been emitted here since it was restored.', 'doctor() tells of rows that were emitted by the restore');
delivers('disabled', '', 'with --disable-triggers nothing is emitted');
delivers('apart', join(' ', ('order.created') x 3), 'else they are sent, as the page says');
no_server_crashed($node);
done_testing();
