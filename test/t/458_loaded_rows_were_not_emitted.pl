# A dump that was restored with --disable-triggers has brought its events into the log, past the guard: doctor() does not say of them
# that they were emitted here. It says so of those that were, and adopt() sends each where it belongs.
# matrix: C18
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(extension => 0, conf => "outbox.lone_emit = allow\nmax_worker_processes = 24\n");
my $dump = $node->basedir . '/dump';
sub sql { return $node->safe_psql(@_) }
sub emitted { return (sql('copy', q{SELECT detail FROM outbox.doctor() WHERE "check" = 'identity'}) =~ /stays silent\.(.*)/)[0] }

sql('postgres', "CREATE DATABASE $_") foreach qw(original copy);
sql('original', "CREATE EXTENSION outbox; CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
	SELECT outbox.create_route('main', server => 'redis', topic => 'events')");
sql('original', "SELECT outbox.emit('order', $_, 'made', '{}')") foreach 1 .. 3;
is(sql('original', q{SELECT outbox.wait_until_idle('60 s')}), 't', 'the original delivers');
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('original') ], 'it is dumped');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-s', '-d', $node->connstr('copy'), $dump ], 'the schema is restored');
$node->command_ok([ 'pg_restore', '-a', '--disable-triggers', '-d', $node->connstr('copy'), $dump ], 'and the data, without triggers');
is(sql('copy', q{SELECT (SELECT count(*) FROM outbox_internal.whole_log) || ' ' || (SELECT count(*) FROM outbox_internal.foreign_event)}), '3 0', 'its events are in the log');
is(emitted(), '', 'nothing was emitted here');
sql('copy', q{BEGIN; SAVEPOINT s; SELECT outbox.emit('order', 4, 'here', '{}'); COMMIT});
is(emitted(), ' 1 event has been emitted here since it was restored.', 'then one is');
sql('copy', q{SELECT outbox.emit('order', 5, 'here', '{}'), outbox.emit('order', 6, 'here', '{}')});
is(emitted(), ' 3 events have been emitted here since it was restored.', 'and two more');

$redis->command('DEL', 'events');
sql('copy', 'SELECT outbox.adopt()');
is(sql('copy', q{SELECT outbox.wait_until_idle('60 s')}), 't', 'adopted, the copy delivers');
is(join(' ', map { $_->{type} } @{ $redis->entries('events') }), 'here here here', 'what was emitted here, and nothing again');
no_server_crashed($node);
done_testing();
