# adopt(keep_positions => false) of a dump: what the original had not delivered is passed over, and every word about it
# says so; what it had delivered is delivered. A move back sends both.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(conf => "max_worker_processes = 24\noutbox.lone_emit = allow\n");
redis_route($node, $redis, 'r', topic => q('r'), lanes => 2);
redis_route($node, $redis, 'every', topic => q('every'), start => q('earliest'));
my $db = 'postgres';
sub sql { my ($query) = @_; return $node->safe_psql($db, $query) }
sub emit { my ($count, $type) = @_; return sql(join '', map { "SELECT outbox.emit('o', 'k$_', '$type', '{}');\n" } 1 .. $count) }
sub there { my ($stream) = @_; my %seen; $seen{ $_->{type} }++ foreach @{ $redis->entries($stream) }; return join ' ', map { "$_ $seen{$_}" } sort keys %seen }
sub idle { my ($what) = @_; return is(sql(q{SELECT outbox.wait_until_idle('60 s', include_delayed => true)}), 't', $what) }
sub states
{
	return sql(q{SELECT string_agg(x, ', ' ORDER BY x) FROM (SELECT format('%s of %s: %s %s', s.route, l.event_type, s.state, count(*)) x
		FROM outbox_internal.log l, outbox.status(l.id) s GROUP BY s.route, l.event_type, s.state) y});
}
sub notice { my ($call) = @_; return ($node->psql($db, $call))[2] }

emit(4, 'had');
idle('the original delivers');
sql(q{SELECT outbox.pause('r', aggregate_type => 'o', aggregate_id => 'held', reason => 'a test')});
sql(q{SELECT outbox.emit('o', 'held', 'parked', '{}')});
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked}, '1'), 'one is parked on r');
ok(wait_until(sub { there('every') eq 'had 4 parked 1' }), 'and delivered by the other route');
sql(q{SELECT outbox.pause('r', reason => 'a test'), outbox.pause('every', reason => 'a test')});
emit(3, 'waited');
# Workers that leave have saved where they stand.
sql('ALTER SYSTEM SET outbox.enabled = off');
sql('SELECT pg_reload_conf()');
ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'outbox relay%'), '0'), 'the workers have left');
my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'a dump');
sql('CREATE DATABASE copy TEMPLATE template0');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('copy'), $dump ], 'restored');
sql('ALTER SYSTEM RESET outbox.enabled');
sql('SELECT pg_reload_conf()');
$redis->command('DEL', qw(r every));

$db = 'copy';
emit(2, 'before');
is(sql('SELECT outbox.adopt(keep_positions => false)'), '0', 'adopted; nothing of the dump is to be sent');
is(states() =~ s/(r of parked: )\w+/$1parked/r, join(', ', 'every of before: paused 2', 'every of had: delivered 4', 'every of parked: delivered 1', 'every of waited: passed over 3',
	'r of before: paused 2', 'r of had: delivered 4', 'r of parked: parked 1', 'r of waited: passed over 3'), 'status() right after');
emit(2, 'after');
sql(q{SELECT outbox.resume('r'), outbox.resume('every')});
ok(wait_until(sub { there('r') eq 'after 2 before 2' && there('every') eq 'after 2 before 2' }, 60), 'what was emitted here is sent') or diag(there('r'), ' / ', there('every'));
ok(wait_until(sub { states() =~ /every of after: delivered 2.*every of before: delivered 2.*r of after: delivered 2.*r of before: delivered 2/ }, 60), 'and noted');
like(states(), qr/every of had: delivered 4.*every of waited: passed over 3.*r of had: delivered 4.*r of waited: passed over 3/, 'status() then');
like(sql(q{SELECT DISTINCT s.reason FROM outbox_internal.log l, outbox.status(l.id) s WHERE s.state = 'passed over' AND s.route = 'r'}),
	qr/^the route was moved behind it by outbox\.adopt\(keep_positions => false\) at [^;]*; outbox\.replay\(\) sends it$/, 'and why');
is(sql(q{SELECT DISTINCT coalesce(outbox.wait_for(id, '10 s')::text, 'unknown') FROM outbox_internal.log WHERE event_type = 'waited'}), 'unknown', 'wait_for() does not say that it is delivered');
like(notice(q{CALL outbox.seek('r', '-infinity')}), qr/would send 8 delivered events again, 3 passed over before for the first time, and pass over 0 /, 'seek() tells them apart');
is(sql(q{SELECT count(*) FROM outbox_internal.log l, outbox.status(l.id) s WHERE l.event_type IN ('had', 'parked', 'waited') AND s.state IN ('delivered', 'passed over')
	AND (s.delivered_at IS NOT NULL OR s.places IS NOT NULL OR s.window_to IS NOT NULL)}), '0', 'no time or place of another event');

$redis->command('DEL', qw(r every));
sql(q{CALL outbox.seek('r', '-infinity', dry_run => false)});
sql(q{CALL outbox.seek('every', '-infinity', dry_run => false)});
ok(wait_until(sub { there('r') eq 'after 2 before 2 had 4 waited 3' && there('every') eq 'after 2 before 2 had 4 parked 1 waited 3' }, 60), 'moved back, they send all') or diag(there('r'), ' / ', there('every'));
ok(wait_until(sub { states() !~ /passed|pending|paused of/ }, 60), 'nothing is passed over any more') or diag(states());
no_server_crashed($node);
done_testing();
