# A key is a hash of topic, type and id under a secret of the installation: who may emit to a topic of his own cannot choose an id
# whose events those of somebody else's key wait for. The two below were one key as long as there was no secret. What a dump brings
# was hashed under another's secret, and is hashed anew before a lane goes on: a key keeps its order.
# matrix: C1
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(conf => stage_with('outbox--0.1.sql') . "outbox.lone_emit = allow\n");
sub sql { my ($query, $database) = @_; return $node->safe_psql($database // 'postgres', $query) }
my $create = "CREATE SERVER k FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');";
sql("$create SELECT outbox.create_route('r', server => 'k')");

my $chosen = q(convert_from('\x787a6c643233642c32390b72040520111b012b2e202c350e7e3176120e0c35', 'UTF8'));
sql(qq(SELECT outbox.pause('r', aggregate_type => 'z', aggregate_id => $chosen, reason => 'a nuisance')));
sql(qq(SELECT outbox.emit('z', $chosen, 'e', '{}', topic => 'lim.x'); SELECT outbox.emit('order', 42, 'e', '{}')));
ok(wait_until(sub { $redis->xlen('outbox.event.order') == 1 }, 60), 'a key does not wait for one that somebody has chosen');
is(sql('SELECT count(*) FROM outbox_internal.parked'), '1', 'that waits alone');

# Of a key that is paused, and of one that a dead letter blocks.
my $wrong = q(SELECT count(*) FROM outbox_internal.parked WHERE order_key IS DISTINCT FROM outbox_internal.order_key(topic, aggregate_type, aggregate_id));
sql(q(SELECT outbox.pause('r', aggregate_type => 'order', aggregate_id => '7', reason => 'a while')));
sql(q(SELECT outbox.emit('order', 7, 'e', to_jsonb(n)) FROM generate_series(1, 5) n));
ok(wait_until(sub { sql(q(SELECT count(*) FROM outbox_internal.parked WHERE aggregate_id = '7')) == 5 }, 60), 'events wait behind a pause');
is(sql($wrong), '0', 'what is parked has the keys that statements compute');
my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'dumped');
sql(q(ALTER SERVER k OPTIONS (SET port '1')));
is(sql(q(SELECT count(DISTINCT secret) FROM outbox_internal.key_secret)), '1', 'one secret');

sql('CREATE DATABASE copy TEMPLATE template0', 'template1');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('copy'), $dump ], 'restored');
is(sql(q(SELECT count(*) FROM outbox_internal.key_secret), 'copy'), '1', 'the copy has a secret');
isnt(sql(q(SELECT secret FROM outbox_internal.key_secret), 'copy'), sql(q(SELECT secret FROM outbox_internal.key_secret)), 'of its own');
is(sql($wrong, 'copy'), '6', 'what it was brought was hashed under another');
sql('SELECT outbox.adopt()', 'copy');
ok(wait_until(sub { sql($wrong, 'copy') == 0 }, 120), 'adopted, it has been hashed anew');
sql(q(SELECT outbox.emit('order', 7, 'e', to_jsonb(6))), 'copy');
ok(wait_until(sub { sql(q(SELECT count(*) FROM outbox_internal.parked WHERE aggregate_id = '7'), 'copy') == 6 }, 60), 'what comes later waits with them');
sql(q(SELECT outbox.resume('r', aggregate_type => 'order', aggregate_id => '7')), 'copy');
sub numbers { return join ' ', grep { /^\d$/ } map { $_->{payload} } @{ $redis->entries('outbox.event.order') } }
ok(wait_until(sub { numbers() =~ /6/ }, 60), 'let go');
is(numbers(), '1 2 3 4 5 6', 'they go in order');

# An installation that was made anew has another secret, and so have sessions and workers that knew the former one.
my $session = $node->background_psql('copy', on_error_stop => 0, timeout => 600);
my $key = q(SELECT outbox_internal.order_key('t', 'order', '7'));
my $before = $session->query_safe($key);
is($session->query_safe($key), $before, 'a key stays what it is');
$session->query_safe('SET client_min_messages = error; SET outbox.allow_loss = on; DROP EXTENSION outbox CASCADE; CREATE EXTENSION outbox');
isnt($session->query_safe($key), $before, 'in another installation it is another');
is($session->query_safe($key), sql($key, 'copy'), 'for all sessions');
is($session->query_safe(q(SELECT outbox_internal.order_key('t', 'order', NULL) IS NULL)), 't', 'no key, no order');
$session->quit;

# What 0.1 has parked is hashed anew by the update: a key under the former hash, and an event without a key.
sql('CREATE DATABASE former TEMPLATE template0', 'template1');
sql(q(CREATE EXTENSION outbox VERSION '0.1'; SET session_replication_role = replica;
	INSERT INTO outbox.route (name, server, start_snapshot, start_time) VALUES ('r', 'k', '1:1:', '-infinity');
	INSERT INTO outbox.parked (route_id, lane, created_at, id, order_key, aggregate_type, aggregate_id, event_type, topic)
	SELECT id, 0, now(), gen_random_uuid(), 4070049396487962225, 'order', '42', 'e', 'outbox.event.order' FROM outbox.route
	UNION ALL SELECT id, 0, now(), gen_random_uuid(), NULL, 'order', NULL, 'e', 'outbox.event.order' FROM outbox.route), 'former');
sql('SET client_min_messages = error; ALTER EXTENSION outbox UPDATE', 'former');
is(sql($wrong, 'former'), '0', 'what 0.1 has parked has keys of this version');
is(sql('SELECT count(order_key) FROM outbox_internal.parked', 'former'), '1', 'and no key where there was none');
no_server_crashed($node);
done_testing();
