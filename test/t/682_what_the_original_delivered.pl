# status() in an adopted dump: of what the original delivered no time and no place is told, for what is known here is of
# other events; of what the copy sent itself, both. Also where the original had been moved, and had another number of lanes.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(conf => "max_worker_processes = 24\noutbox.lone_emit = allow\n");
redis_route($node, $redis, 'plain', topic => q('plain'), lanes => 2);
redis_route($node, $redis, 'moved', topic => q('moved'), lanes => 2);
my $db = 'postgres';
sub sql { my ($query) = @_; return $node->safe_psql($db, $query) }
sub emit { my ($count, $type) = @_; return sql(join '', map { "SELECT outbox.emit('o', 'k$_', '$type', '{}');\n" } 1 .. $count) }
sub idle { my ($what) = @_; return is(sql(q{SELECT outbox.wait_until_idle('60 s')}), 't', $what) }
# By route and type: how many, in which state, and whether there is a time and a place.
sub told
{
	return sql(q{SELECT string_agg(x, E'\n' ORDER BY x) FROM (SELECT format('%s %s: %s %s %s', s.route, l.event_type, count(*), s.state,
		concat(s.delivered_at IS NOT NULL, s.places IS NOT NULL, s.window_to IS NOT NULL)) x
		FROM outbox_internal.log l, outbox.status(l.id) s GROUP BY s.route, l.event_type, s.state, 
		concat(s.delivered_at IS NOT NULL, s.places IS NOT NULL, s.window_to IS NOT NULL)) y});
}

emit(5, 'had');
idle('the original delivers');
sql(q{CALL outbox.seek('moved', '-infinity', dry_run => false)});
idle('and again');
sql(q{SELECT outbox.alter_route('moved', lanes => 3)});
ok(wait_for_value($node, q{SELECT lanes FROM outbox.route WHERE name = 'moved'}, '3', 60), 'another number of lanes');
sql(q{SELECT outbox.pause('plain', reason => 'a test'), outbox.pause('moved', reason => 'a test')});
emit(4, 'waited');
my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'a dump');
sql('CREATE DATABASE copy TEMPLATE template0');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('copy'), $dump ], 'restored');

$db = 'copy';
sql('SELECT outbox.adopt()');
emit(3, 'new');
is(told(), join("\n", map { ("$_ had: 5 delivered fff", "$_ new: 3 paused fff", "$_ waited: 4 paused fff") } qw(moved plain)), 'right after');
my $adopted = sql(q{SELECT max(at) FROM outbox.audit WHERE action = 'adopt'});
sql(q{SELECT outbox.resume('plain'), outbox.resume('moved')});
idle('what waits is sent');
my $all = join("\n", map { ("$_ had: 5 delivered fff", "$_ new: 3 delivered ttt", "$_ waited: 4 delivered ttt") } qw(moved plain));
ok(wait_until(sub { told() eq $all }, 60), 'times and places are of what was sent here') or diag(told());
is($redis->xlen('plain'), 5 + 4 + 3, 'which is each once');
emit(2, 'newer');
idle('and more');
ok(wait_until(sub { told() =~ /moved newer: 2 delivered ttt.*plain newer: 2 delivered ttt/s }, 60), 'later windows');
is(told() =~ s/^\w+ newer.*\n?//gmr =~ s/\n$//r, $all, 'change nothing of it');
is(sql(q{SELECT count(*) FROM outbox_internal.log l, outbox.status(l.id) s WHERE s.delivered_at < (SELECT max(at) FROM outbox.audit WHERE action = 'adopt')}), '0', 'nor is any before the adoption');
no_server_crashed($node);
done_testing();
