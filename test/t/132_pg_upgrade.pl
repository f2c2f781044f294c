# pg_upgrade: in binary upgrade mode nothing of ours runs; all events, positions, routes and parked events are there
# afterwards; the new server is silent (it has another system identifier) until outbox.adopt(keep_positions => true), and
# then delivers what was not delivered, and nothing twice.
# matrix: C6
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $conf = "max_worker_processes = 16\n";
my $old = new_node(name => 'old', conf => $conf);
redis_route($old, $redis, 'redis', topic => q('events'), lanes => 3);
# A destination that is down until after the upgrade: all of its events wait.
$old->safe_psql('postgres', q{
	CREATE SERVER later FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');
	CREATE USER MAPPING FOR CURRENT_USER SERVER later OPTIONS (password 'secret');
	SELECT outbox.create_route('later', server => 'later', topic => 'later', event_types => '{counted}');
	CREATE TABLE orders (id int PRIMARY KEY);
	CREATE TRIGGER events AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'id');
	CREATE VIEW mine AS SELECT * FROM outbox.event;
	CREATE ROLE app; SELECT outbox.grant_emit('app');});

sub emit
{
	my ($node, $from, $to) = @_;
	$node->safe_psql('postgres', "SELECT count(outbox.emit('order', 'k' || i % 7, 'counted', jsonb_build_object('n', i))) FROM generate_series($from, $to) i");
}
sub numbers { my ($stream) = @_; return join ' ', sort { $a <=> $b } map { $_->{payload} =~ /(\d+)/ } @{ $redis->entries($stream) } }

# Everything that must survive, as text.
sub state_of
{
	my ($node) = @_;
	return join "\n", map { $node->safe_psql('postgres', $_) } (
		'SELECT * FROM outbox_internal.log ORDER BY created_at',
		'SELECT * FROM outbox.route ORDER BY id',
		'SELECT route_id, lane, since, window_from, window_to, done_to FROM outbox_internal.lane ORDER BY 1, 2',
		'SELECT * FROM outbox_internal.progress ORDER BY at',
		'SELECT route_id, created_at, id, state, due_at, payload, error_code FROM outbox_internal.parked ORDER BY 2, 1',
		'SELECT * FROM outbox.pause ORDER BY id',
		'SELECT at, who, action, reason FROM outbox.audit ORDER BY at',
		'SELECT system_identifier, database, instance FROM outbox_internal.identity',
		'SELECT srvname, srvoptions FROM pg_foreign_server ORDER BY 1',
		"SELECT tgrelid::regclass, tgname, tgenabled FROM pg_trigger WHERE NOT tgisinternal ORDER BY tgrelid::regclass::text, tgname",
		'SELECT last_value >= (SELECT extract(epoch FROM max(created_at)) * 1000000 FROM outbox_internal.log) FROM outbox_internal.clock_ceiling');
}

emit($old, 1, 300);
$old->safe_psql('postgres', q{SELECT outbox.emit('order', 'k1', 'reminder', '{"n": 9999}', deliver_at => now() + interval '1 day')});
$old->safe_psql('postgres', q{INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, event_type, topic, error_class, error_code)
	SELECT id, 0, now(), gen_random_uuid(), 'order', 'refused', 'events', 'message', 'TOO_LARGE' FROM outbox.route WHERE name = 'redis'});
$old->safe_psql('postgres', q{SELECT outbox.pause('redis', aggregate_type => 'order', aggregate_id => 'disputed', reason => 'ticket 4711')});
ok(wait_until(sub { $redis->xlen('events') == 300 }), 'the old server delivers');
ok(wait_for_value($old, q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'scheduled'}, '1'), 'and keeps what is not due');
# Down, with something left to do: relay workers off, the keeper too by the stop.
$old->safe_psql('postgres', 'ALTER SYSTEM SET outbox.enabled = off');
$old->reload;
ok(wait_for_value($old, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'", '0'), 'workers leave');
emit($old, 301, 350);
$old->safe_psql('postgres', 'ALTER SYSTEM RESET outbox.enabled');
my $expected = state_of($old);
$old->stop;

# --- binary upgrade mode ---
my $bindir = $old->config_data('--bindir');
my @mode = ('pg_ctl', '-w', '-D', $old->data_dir, '-l', $old->logfile);
command_ok([ @mode, '-o', "-b -p " . $old->port, 'start' ], 'the server starts in binary upgrade mode');
# A second and a half is long enough for a launcher to come.
my $seen = $old->safe_psql('postgres', q{SELECT pg_sleep(1.5); SELECT string_agg(backend_type, ' ') FROM pg_stat_activity WHERE backend_type LIKE 'outbox%'});
$seen =~ s/\s//g;
is($seen, '', 'and nothing of ours runs in it');
command_ok([ @mode, 'stop' ], 'it stops');

# --- the upgrade ---
my $new = PostgreSQL::Test::Cluster->new('new');
$new->init;
$new->append_conf('postgresql.conf', "max_prepared_transactions = 10\nlog_min_messages = info\n$conf");
my $help = `pg_upgrade --help`;
command_ok([ 'pg_upgrade', ($help =~ /--no-sync/ ? '--no-sync' : ()), '-d', $old->data_dir, '-D', $new->data_dir, '-b', $bindir, '-B', $bindir,
	'-s', $new->host, '-p', $old->port, '-P', $new->port ], 'pg_upgrade goes through');
is($redis->xlen('events'), 300, 'nothing was published meanwhile');
$new->start;
ok($new->wait_for_log(qr/outbox publishes nothing from database "[^"]+": it is a copy/), 'the new server has another identity, and says that it is silent');
my $found = state_of($new);
ok($found eq $expected, 'every event, route, position, parked event, pause, option, trigger and the clock are as they were')
	or do {
		my (%was, %is); $was{$_}++ foreach split /\n/, $expected; $is{$_}++ foreach split /\n/, $found;
		diag(join "\n", (map { "- $_" } grep { !$is{$_} } sort keys %was), map { "+ $_" } grep { !$was{$_} } sort keys %is);
	};
emit($new, 351, 360);
$new->safe_psql('postgres', 'SET ROLE app; SELECT outbox.emit(\'order\', \'k1\', \'counted\', \'{"n": 361}\')');
$new->safe_psql('postgres', 'INSERT INTO orders VALUES (362)');
is($redis->xlen('events'), 300, 'silent');
is($new->safe_psql('postgres', 'SELECT outbox.adopt(keep_positions => true)'), '0', 'adopted with its positions');
ok(wait_until(sub { $redis->xlen('events') >= 362 }), 'it goes on');
is(numbers('events'), join(' ', 1 .. 362), 'where the old one was: all is delivered, and nothing twice');
$new->safe_psql('postgres', "ALTER SERVER later OPTIONS (SET port '$redis->{port}')");
$new->safe_psql('postgres', 'DROP USER MAPPING FOR CURRENT_USER SERVER later');
ok(wait_until(sub { $redis->xlen('later') >= 361 }), 'the destination that was down all the time comes back');
is(numbers('later'), join(' ', 1 .. 361), 'and gets all of it, once');
is($new->safe_psql('postgres', q{SELECT string_agg(state, ' ' ORDER BY state) FROM outbox_internal.parked WHERE event_type <> 'counted'}), 'dead scheduled', 'what is parked still is');
my %first;
my $order = 1;
foreach my $entry (grep { $_->{type} eq 'counted' } @{ $redis->entries('later') })
{
	my ($n) = $entry->{payload} =~ /(\d+)/;
	$order = 0 if $n <= ($first{ $entry->{key} } // 0);
	$first{ $entry->{key} } = $n;
}
ok($order, 'in order per key');
ok($new->safe_psql('postgres', q{SELECT count(*) = 0 FROM outbox.doctor() WHERE status = 'problem'}) eq 't', 'doctor() finds no problem');
no_server_crashed($_, 'no process of ' . $_->name . ' crashed') foreach $old, $new;
done_testing();
