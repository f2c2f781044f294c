# An adopted dump says of what the original had been moved behind that it was passed over, as the original did, and not that it was delivered;
# a move back sends it for the first time. So does a dump of that copy, which knows where either of its originals had written.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my %redis = map { $_ => Outbox::Redis->start } qw(first second);
my $node = new_node(conf => "max_worker_processes = 24\noutbox.lone_emit = allow\n");
redis_route($node, $redis{first}, 'r', topic => q('r'), lanes => 2);
redis_route($node, $redis{first}, 'early', topic => q('early'), start => q('earliest'));
my $db = 'postgres';
sub sql { my ($query) = @_; return $node->safe_psql($db, $query) }
sub emit { my ($count, $type) = @_; return sql(join '', map { "SELECT outbox.emit('o', 'k$_', '$type', '{}');\n" } 1 .. $count) }
sub there { my ($at, $stream) = @_; my %seen; $seen{ $_->{type} }++ foreach @{ $redis{$at}->entries($stream) }; return join ' ', map { "$_ $seen{$_}" } sort keys %seen }
sub idle { my ($what) = @_; return is(sql(q{SELECT outbox.wait_until_idle('60 s', include_delayed => true)}), 't', $what) }
sub states
{
	return sql(q{SELECT string_agg(x, ', ' ORDER BY x) FROM (SELECT format('%s %s: %s %s', s.route, l.event_type, s.state, count(*)) x
		FROM outbox_internal.log l, outbox.status(l.id) s GROUP BY s.route, l.event_type, s.state) y});
}
sub pause { return sql(q{SELECT outbox.pause('r', reason => 'a test'), outbox.pause('early', reason => 'a test')}) }
sub resume { return sql(q{SELECT outbox.resume('r'), outbox.resume('early')}) }
sub copy_to
{
	my ($copy) = @_;
	my $dump = $node->basedir . "/$copy";
	$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr($db) ], "$copy: a dump");
	sql("CREATE DATABASE $copy TEMPLATE template0");
	return $node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr($copy), $dump ], "$copy: restored");
}

# What one route is moved behind the other delivers. Then another number of lanes, what people give up, and a backlog.
emit(4, 'had');
idle('the original delivers');
sql(q{SELECT outbox.pause('r', reason => 'a test')});
emit(3, 'passed');
ok(wait_until(sub { there('first', 'early') eq 'had 4 passed 3' }, 60), 'the other route delivers');
sql(q{CALL outbox.seek('r', 'infinity', dry_run => false)});
sql(q{SELECT outbox.resume('r')});
sql(q{SELECT outbox.alter_route('r', lanes => 3)});
ok(wait_for_value($node, q{SELECT lanes FROM outbox.route WHERE name = 'r'}, '3', 60), 'another number of lanes');
emit(2, 'then');
idle('it goes on');
pause();
emit(2, 'behind');
sql(q{CALL outbox.seek('early', 'infinity', dry_run => false)});
emit(5, 'waits');
my $told = 'early behind: passed over 2, early had: delivered 4, early passed: delivered 3, early then: delivered 2, early waits: paused 5, '
  . 'r behind: paused 2, r had: delivered 4, r passed: passed over 3, r then: delivered 2, r waits: paused 5';
is(states(), $told, 'what the original says');
copy_to($_) foreach qw(copy nothing);

$db = 'copy';
sql("ALTER SERVER r OPTIONS (SET port '$redis{second}->{port}')");
sql('SELECT outbox.adopt()');
is(states(), $told, 'the adopted copy says the same');
like(sql(q{SELECT DISTINCT s.reason FROM outbox_internal.log l, outbox.status(l.id) s WHERE s.state = 'passed over' AND s.route = 'r'}),
	qr/^the route was moved behind it by outbox\.adopt\(keep_positions => false\) at [^;]*, or by outbox\.seek\(\) in the original; outbox\.replay\(\) sends it$/, 'and why');
resume();
idle('it delivers what waited');
is(there('second', 'r'), 'behind 2 waits 5', 'r: and nothing else');
is(there('first', 'early'), 'had 4 passed 3 then 2 waits 5', 'early: and nothing else');
$told =~ s/paused/delivered/g;
ok(wait_until(sub { states() eq $told }, 60), 'which is noted') or diag(states());
is(sql(q{SELECT string_agg(DISTINCT coalesce(outbox.wait_for(id, '10 s')::text, 'unknown'), ' ') FROM outbox_internal.log WHERE event_type = 'passed'}), 'unknown', 'wait_for() does not say that it is delivered');
my ($code, $out, $err) = $node->psql($db, q{CALL outbox.seek('r', '-infinity')});
like($err, qr/would send 13 delivered events again, 3 passed over before for the first time, and pass over 0 /, 'a move back tells them apart');

# A copy of the copy.
pause();
copy_to('second');
$db = 'second';
sql('SELECT outbox.adopt()');
is(states(), $told, 'the copy of the copy says the same');
is(sql(q{SELECT DISTINCT cardinality(s.written_to) FROM outbox_internal.lane_start s JOIN outbox.route r ON r.id = s.route_id WHERE r.name = 'r'}), '2', 'and knows of both servers that were written to');
resume();
$redis{second}->command('DEL', 'r');
sql(q{CALL outbox.seek('r', '-infinity', dry_run => false)});
ok(wait_until(sub { there('second', 'r') eq 'behind 2 had 4 passed 3 then 2 waits 5' }, 60), 'moved back, it sends all') or diag(there('second', 'r'));
ok(wait_until(sub { states() =~ /r passed: delivered 3/ }, 60), 'and says so') or diag(states());

# Without what waits.
$db = 'nothing';
sql('SELECT outbox.adopt(keep_positions => false)');
is(states(), 'early behind: passed over 2, early had: delivered 4, early passed: delivered 3, early then: delivered 2, early waits: passed over 5, '
	. 'r behind: passed over 2, r had: delivered 4, r passed: passed over 3, r then: delivered 2, r waits: passed over 5', 'without positions both are passed over');
no_server_crashed($node);
done_testing();
