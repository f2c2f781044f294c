# A copy of a database, a restored dump, and a server under another outbox.instance publish nothing until adopted. Then
# each goes on where the original was: what it had delivered is not sent again, what was emitted in the copy meanwhile is.
# matrix: C3 C5 C11
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node(conf => "max_worker_processes = 16\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('events'));
$node->safe_psql('postgres', q(SELECT outbox.emit('order', i, 'order.created', '{"n": 1}') FROM generate_series(1, 100) i));
ok(wait_idle($node), 'the original publishes');
is($redis->xlen('events'), 100, 'all of it');

sub workers
{
	my ($database) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'outbox%' AND datname = '$database'");
}

# --- a template copy ---
$node->safe_psql('template1', 'CREATE DATABASE twin TEMPLATE postgres');
ok($node->wait_for_log(qr/outbox publishes nothing from database "[^"]+": it is a copy/), 'the server log says that a copy is silent');
my ($emitted, undef, $warned) = $node->psql('twin', q(SELECT outbox.emit('order', 1, 'order.created', '{"n": 2}')));
is($emitted, 0, 'a copy takes events');
like($warned, qr/WARNING:  this database is a copy: events are kept, and none is published before outbox\.adopt\(\).*HINT: .*by SELECT outbox\.adopt\(\)/s,
	'and says what will not become of them, and how it does');
sleep 2; # in which a worker would have come and begun to send
is(workers('twin'), '0', 'no worker runs in a copy');
is($redis->xlen('events'), 100, 'nothing comes from it');
is($node->safe_psql('twin', 'SELECT outbox.adopt()'), '0', 'adopt() finds no event of a dump in it');
$node->safe_psql('twin', q(SELECT outbox.emit('order', 1, 'order.created', '{"n": 3}')));
is($node->safe_psql('twin', "SELECT outbox.wait_until_idle('30 s')"), 't', 'an adopted copy publishes');
is($redis->xlen('events'), 102, 'what was emitted in it, before it was adopted and after');

# Of one's own database too: its workers make way.
my ($copied, $out, $err) = $node->psql('postgres', 'CREATE DATABASE sibling TEMPLATE postgres');
is($copied, 0, 'a session can copy the database it is connected to') or diag $err;
ok(wait_for_value($node, "SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type LIKE 'outbox%' AND datname = 'postgres'", 't'),
	'whose workers come back');

# --- a restored dump ---
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('postgres') ], 'the database is dumped');
$node->safe_psql('template1', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('restored') ], 'and restored');
is($node->safe_psql('restored', 'SELECT count(*) FROM outbox_internal.log'), '0', 'no event of the original is in the log of the restored one');
is($node->safe_psql('restored', 'SELECT count(*) FROM outbox_internal.foreign_event'), '100', 'they are kept apart');
sleep 2; # in which a worker would have come and begun to send
is(workers('restored'), '0', 'it is silent');
$node->safe_psql('restored', q(SELECT outbox.emit('order', 1, 'order.created', '{"n": 3.5}')));
is($node->safe_psql('restored', 'SELECT outbox.adopt()'), '0', 'adopt() finds nothing that the original had not delivered');
is($node->safe_psql('restored', "SELECT outbox.wait_until_idle('30 s')"), 't', 'it works');
my $entries = $redis->entries('events');
is(scalar @$entries, 103, 'what was emitted in it is delivered');
my %seen;
$seen{ $_->{id} }++ foreach @$entries;
is(scalar(grep { $seen{$_} > 1 } keys %seen), 0, 'and nothing twice');
my ($replayed, undef, $told) = $node->psql('restored', q{CALL outbox.replay(since => '-infinity', route => 'redis', dry_run => false, per_second => NULL)});
ok(wait_until(sub { $redis->xlen('events') == 204 }), 'all of it, the events of the original too, can be sent again') or diag $told;
%seen = ();
$seen{ $_->{id} }++ foreach @{ $redis->entries('events') };
is(scalar(grep { $seen{$_} == 2 } keys %seen), 101, 'under the ids that they had');

# --- the same files under another name ---
$node->append_conf('postgresql.conf', "outbox.instance = 'staging'\n");
$node->restart;
$node->safe_psql('postgres', q(SELECT outbox.emit('order', 1, 'order.created', '{"n": 4}')));
sleep 2; # in which a worker would have come and begun to send
is(workers('postgres'), '0', 'under another outbox.instance nothing runs');
is($redis->xlen('events'), 204, 'and nothing is published');
# A day that is over and delivered: the keeper of an outbox that is no copy would drop it, too.
$node->safe_psql('postgres', q{SET outbox.allow_loss = on;
	CREATE TABLE outbox_internal.log_20200101 (LIKE outbox_internal.log);
	CREATE INDEX ON outbox_internal.log_20200101 (xid);
	INSERT INTO outbox_internal.log_20200101 (created_at, id, xid, aggregate_type, event_type) VALUES ('2020-01-01 12:00+00', gen_random_uuid(), '3', 'order', 'order.created');
	ALTER TABLE outbox_internal.log ATTACH PARTITION outbox_internal.log_20200101 FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00')});
my ($dropped, undef, $refused) = $node->psql('postgres', q{CALL outbox.drop_expired(dry_run => false, keep => '1 day')});
isnt($dropped, 0, 'no day of the log is dropped by hand');
like($refused, qr/ERROR:  cannot drop days of an outbox that is not in use\nDETAIL:  It is a copy/, 'and it says why');
isnt($node->safe_psql('postgres', q(SELECT to_regclass('outbox_internal.log_20200101'))), '', 'the day is there');
$node->safe_psql('postgres', 'SELECT outbox.adopt()');
$node->safe_psql('postgres', q(SELECT outbox.emit('order', 1, 'order.created', '{"n": 5}')));
ok(wait_idle($node), 'until it is adopted');
is($redis->xlen('events'), 206, 'and then what was emitted meanwhile, and what comes');
no_server_crashed($node);
done_testing();
