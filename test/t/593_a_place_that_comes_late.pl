# All places for databases are taken (outbox.max_databases), and one comes free while sessions of a database without one
# emit: what they write stays in order with what others write, whoever saw the place first, and the clock is one.
# matrix: B13
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => "outbox.workers = 1\nmax_worker_processes = 20\noutbox.max_databases = 1\noutbox.lone_emit = allow\n");
my $redis = Outbox::Redis->start;

sub served { my ($database) = @_; return $node->safe_psql($database, q{SELECT count(*) FROM outbox.process WHERE database = current_database() AND process = 'keeper' AND running = 1}) }

# Somebody else has the only place.
sub fill
{
	my ($database) = @_;
	$node->safe_psql('template1', "CREATE DATABASE $database");  # a session of a database without outbox takes no place
	$node->safe_psql($database, q{CREATE EXTENSION outbox; CREATE SERVER s FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 's')});
	ok(wait_until(sub { served($database) eq '1' }, 60), "$database has the place");
	return;
}

sub emit { my ($type) = @_; return "SELECT outbox.emit('t', 'k', '$type', '{}') IS NULL" }

fill('other');
$node->safe_psql('postgres', 'CREATE EXTENSION outbox');
redis_route($node, $redis, 'r', topic => q('r'), lanes => 1);
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox.doctor() WHERE detail LIKE \'All 1 places%\''), '1', 'ours has none');
my ($code, undef, $error) = $node->psql('postgres', 'SELECT outbox.reset_clock()');
like($error, qr/ERROR:  no worker of outbox serves this database.*DETAIL:  All 1 places.*HINT:  Raise outbox.max_databases/s, 'a clock that has no place is not put back');
my $early = $node->background_psql('postgres', on_error_stop => 1);
my $caught = $node->background_psql('postgres', on_error_stop => 1);
$early->query_safe(emit('v0'));
$caught->query_safe(emit('v1'));
$node->safe_psql('postgres', "SELECT outbox.pause(route => 'r', reason => 'both in one window')");

# One session is about to take a reading without a place when the place comes free.
Outbox::Faults::arm('clock.place', 'wait');
$caught->query_until(qr/sent/, "\\echo sent\n" . emit('v4') . ";\n");
ok(Outbox::Faults::await_waiting('clock.place'), 'a session is about to take a reading without a place');
$node->safe_psql('other', 'DROP EXTENSION outbox CASCADE');  # DROP DATABASE would wait for the session that waits
ok(wait_until(sub { served('postgres') eq '1' }, 60), 'the place is ours');
$node->safe_psql('postgres', emit('v2'));
$early->query_safe(emit('v3'));
Outbox::Faults::release('clock.place');
$caught->query_safe('SELECT 1');
$node->safe_psql('postgres', emit('v5'));
$early->query_safe(emit('v6'));
is($node->safe_psql('postgres', "SELECT string_agg(event_type, ' ' ORDER BY created_at) FROM outbox_internal.log"), 'v0 v1 v2 v3 v4 v5 v6', 'readings are in the order in which they were taken');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.log WHERE created_at > clock_timestamp() + interval \'11 s\''), '0', 'and the clock is not far ahead');
$node->safe_psql('postgres', "SELECT outbox.resume(route => 'r')");
ok(wait_until(sub { $redis->xlen('r') == 7 }, 60), 'all arrive');
is(join(' ', map { $_->{type} } @{ $redis->entries('r') }), 'v0 v1 v2 v3 v4 v5 v6', 'in this order');
$_->quit foreach $early, $caught;
no_server_crashed($node);
done_testing();
