# A copy that was not adopted is copied again, by its files and by a dump, and adopted there: what the original had delivered
# or people had given up there is not sent, what waited is, then what each copy on the way emitted, in order per key. Also
# where the files are copied while an adoption is under way.
# matrix: C5 C11 C16
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "max_worker_processes = 24\noutbox.lone_emit = allow\n";
my $redis = Outbox::Redis->start;
my $node = new_node(conf => $conf);
redis_route($node, $redis, 'main', topic => q('events'), lanes => 2);
my $directory = $node->basedir;

sub emit
{
	my ($server, $database, $key, @types) = @_;
	$server->safe_psql($database, "SET client_min_messages = error; SELECT outbox.emit('order', '$key', '$_', '{}')") foreach @types;
	return;
}
sub types { return map { $_->{type} } @{ $redis->entries('events') } }
sub dump_of
{
	my ($server, $database) = @_;
	$server->command_ok([ 'pg_dump', '-Fc', '-f', "$directory/$database", '-d', $server->connstr($database) ], "$database is dumped");
	return "$directory/$database";
}
sub restore
{
	my ($server, $database, $file, @more) = @_;
	$server->safe_psql('template1', "CREATE DATABASE $database TEMPLATE template0");
	$server->command_ok([ 'pg_restore', '--exit-on-error', @more, '-d', $server->connstr($database), $file ], "$database is restored");
	return;
}
# Adopted here, with all that it then sends.
sub adopted
{
	my ($server, $database) = @_;
	$redis->command('DEL', 'events');
	$server->safe_psql($database, 'SELECT outbox.adopt()');
	$server->safe_psql($database, q{SELECT outbox.resume('main')});
	emit($server, $database, 'last', 'last');
	is($server->safe_psql($database, q{SELECT outbox.wait_until_idle('60 s')}), 't', "$database sends what it has to");
	return join ' ', types();
}

# --- the original: many are delivered, one is skipped, some are passed over, two wait ---
my $delivered = 1200; # more than a batch of adopt()
$node->safe_psql('postgres', "SET client_min_messages = error; SELECT count(outbox.emit('order', 'k' || n % 20, 'delivered', '{}')) FROM generate_series(1, $delivered) n");
ok(wait_idle($node), 'the original delivers');
$node->safe_psql('postgres', q{SELECT outbox.pause('main', aggregate_type => 'order', aggregate_id => 'bad', reason => 'wrong customer')});
emit($node, 'postgres', 'bad', 'skipped');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox.parked_event', '1'), 'an event is parked');
$node->safe_psql('postgres', q{SELECT outbox.skip(id, 'wrong customer') FROM outbox.parked_event;
	SELECT outbox.resume('main', aggregate_type => 'order', aggregate_id => 'bad'); SELECT outbox.pause('main', reason => 'to have a backlog')});
emit($node, 'postgres', 'k1', 'passed', 'passed');
$node->safe_psql('postgres', q{CALL outbox.seek('main', 'infinity', dry_run => false)});
emit($node, 'postgres', 'k1', 'first', 'second');
is(scalar(types()), $delivered, 'it has delivered what it had to');
my $original = dump_of($node, 'postgres');
$node->stop;

# --- on a server whose transaction ids are lower than the original's ---
my $other = new_node(name => 'other', conf => $conf, extension => 0);
restore($other, 'staging', $original);
emit($other, 'staging', 'k1', 'third');
$other->safe_psql('template1', 'CREATE DATABASE files TEMPLATE staging');
restore($other, 'dumped', dump_of($other, 'staging'), '-j4');
emit($other, 'dumped', 'k1', 'fourth');
restore($other, 'again', dump_of($other, 'dumped'));
emit($other, 'again', 'k1', 'fifth');
$other->safe_psql('template1', 'CREATE DATABASE whole TEMPLATE again');
# As a copy that was restored under an older version, or with --disable-triggers, which notes nothing.
$other->safe_psql('template1', 'CREATE DATABASE unnoted TEMPLATE dumped');
$other->safe_psql('unnoted', 'SET outbox.allow_loss = on; SET client_min_messages = error; UPDATE outbox_internal.identity SET restored_in = NULL');
is($redis->xlen('events'), $delivered, 'all of them are silent');

is(adopted($other, 'files'), 'first second third last', 'a copy of the files');
is(adopted($other, 'dumped'), 'first second third fourth last', 'a dump of it');
is(adopted($other, 'again'), 'first second third fourth fifth last', 'a dump of that');
is(adopted($other, 'whole'), 'first second third fourth fifth last', 'a copy of the files of that');
is(adopted($other, 'unnoted'), 'first second third fourth last', 'nothing was noted');
is(adopted($other, 'staging'), 'first second third last', 'and the first copy itself');
foreach my $database (qw(files again))
{
	is($other->safe_psql($database, 'SELECT count(*) FROM outbox_internal.foreign_event'), '0', "$database: nothing of the dump is left behind");
	is($other->safe_psql($database, q{SELECT string_agg(DISTINCT s.state, ' ') FROM outbox_internal.log l, outbox.status(l.id) s WHERE l.event_type = 'delivered'}),
		'delivered', "$database: status() knows what the original had delivered");
	is($other->safe_psql($database, 'SELECT count(*) FROM outbox_internal.lane WHERE home IS DISTINCT FROM outbox_internal.home()'), '0', "$database: every lane is at home here");
}

# --- the files are copied while the adoption of a dump is under way ---
restore($other, 'half', $original);
Outbox::Faults::put('adopt.at_once', 1000);
Outbox::Faults::put('adopt.rows', 100);
Outbox::Faults::arm('adopt.uncommitted', 'wait');
$other->safe_psql('half', 'SELECT outbox.adopt()');
ok(wait_until(sub { Outbox::Faults::waiting('adopt.uncommitted') }), 'the keeper is at it');
$other->stop('immediate');
$other->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$other->start;
is($other->safe_psql('half', 'SELECT phase FROM outbox_internal.adoption'), 'pending', 'an adoption is under way');
$other->safe_psql('template1', 'CREATE DATABASE halves TEMPLATE half');
$other->stop;
$other->append_conf('postgresql.conf', "shared_preload_libraries = 'outbox'\n");
Outbox::Faults::release('adopt.uncommitted');
$other->start;
is(adopted($other, $_), 'first second last', "$_: goes on with it") foreach qw(half halves);
no_server_crashed($other);
done_testing();
