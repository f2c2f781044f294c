# Another number of lanes while one of them does not come forward: the change waits, and the others work as ever; it happens
# when the last is near. It says so meanwhile. And with many lanes: all of them stand still for seconds at most.
# matrix: S2 R6
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node(conf => "outbox.workers = 2\n");
# Times are measured: not those of fsyncs on a disk that others use, too.
my $redis = Outbox::Redis->start(conf => ['appendfsync no']);
redis_route($node, $redis, 'r', topic => q('r'), lanes => 2);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub happened
{
	my ($lanes, $name) = @_;
	return ok(wait_for_value($node, "SELECT r.lanes, r.lanes_wanted IS NULL, count(*) = count(l.owner) FROM outbox.route r
		JOIN outbox_internal.lane l ON l.route_id = r.id GROUP BY r.id", "$lanes|t|t", 60), $name);
}

sql(q{CREATE TABLE stop ();
	CREATE PROCEDURE flow() LANGUAGE plpgsql AS $$
	DECLARE n int := 0;
	BEGIN
	  WHILE to_regclass('stop') IS NOT NULL LOOP
	    n := n + 1;
	    PERFORM outbox.emit_text('t', (n % 100)::text, 'x', (extract(epoch FROM clock_timestamp()) * 1000)::bigint::text);
	    COMMIT;
	    PERFORM pg_sleep(0.02);
	  END LOOP;
	END $$});
sql(q{SELECT outbox.emit_text('t', i::text, 'x', '0') FROM generate_series(1, 100) i});
ok(wait_for_value($node, 'SELECT count(DISTINCT owner) FROM outbox_internal.lane', '2', 30), 'each worker has a lane');
ok(wait_idle($node), 'and delivers');
my $flow = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$flow->query_until(qr/^$/m, "CALL flow();\n");

# Lateness of what each of the two lanes delivered of what was emitted between two moments, in ms.
sub lane_of
{
	my ($bytes, $lanes) = @_;
	my $hash = 2166136261;
	$hash = (($hash ^ ord) * 16777619) & 0xffffffff foreach split //, $bytes;
	return ($hash ^ ($hash >> 16)) % $lanes;
}
sub late
{
	my ($lanes, $from, $to) = @_;
	my @late = map { [] } 1 .. $lanes;
	foreach my $entry (@{ $redis->entries('r') })
	{
		my ($came) = $entry->{_entry} =~ /^(\d+)/;
		push @{ $late[ lane_of($entry->{key}, $lanes) ] }, $came - $entry->{payload}
		  if $entry->{payload} >= $from * 1000 && $entry->{payload} < $to * 1000;
	}
	return map { [ sort { $a <=> $b } @$_ ] } @late;
}

# One lane stands still, as in a worker that hangs.
Outbox::Faults::arm('window.opened', 'wait');
ok(Outbox::Faults::await_waiting('window.opened', 20), 'one worker is stopped');
Outbox::Faults::disarm('window.opened');
my $began = time;
sleep 3; # in which the other lane gets ahead of it
my $asked = time;
sql(q{SELECT outbox.alter_route('r', lanes => 3)});
my $begun = 0;
while (time < $asked + 13) { $begun += sql('SELECT count(lanes_begun) FROM outbox.route'); sleep 0.2 }
my $ended = time;
is($begun, 0, 'a change of lanes does not begin while one of them is behind');
like(sql(q{SELECT status || ': ' || detail || ' ' || hint FROM outbox.doctor() WHERE "check" = 'lanes'}), qr/goes from 2 to 3 lanes.*end of the log/, 'doctor() says what it waits for');
my ($healthy) = sort { @$b <=> @$a } late(2, $asked, $ended - 1);
note(sprintf '%d events, median %d ms, longest %d ms', scalar @$healthy, $healthy->[ @$healthy / 2 ], $healthy->[-1]);
cmp_ok(scalar @$healthy, '>', 100, 'the other lane delivers meanwhile');
cmp_ok($healthy->[-1], '<', 2000, 'and never stands still');
Outbox::Faults::release('window.opened');
happened(3, 'it happens once the last lane is near');

foreach my $lanes (64, 2, 64)
{
	my $from = time;
	sql("SELECT outbox.alter_route('r', lanes => $lanes)");
	happened($lanes, "$lanes lanes");
	my $to = time;
	ok(wait_idle($node), 'all is delivered');
	my ($all) = late(1, $from - 1, $to);
	note(sprintf '%d lanes: %.1f s, %d events, longest %d ms', $lanes, $to - $from, scalar @$all, $all->[-1]);
	cmp_ok($all->[-1], '<', 10_000, 'after seconds');
}

# While no lane delivers, none is stopped: the change begins when the destination is back. What a lane has not delivered is
# behind the end of the log once it was committed: before that it may begin at once.
$redis->pause;
ok(wait_for_value($node, "SELECT state IN ('open', 'half-open') FROM outbox.destination", 't', 30), 'the destination is known to be down');
sql(q{SELECT outbox.alter_route('r', lanes => 4)});
sleep 4; # in which it would begin
is(sql('SELECT count(lanes_begun) FROM outbox.route'), '0', 'not begun while the destination is down');
$redis->cont;
happened(4, 'but afterwards');
sql('DROP TABLE stop');
$flow->quit;
ok(wait_idle($node), 'all is delivered');
my (%last, $wrong);
foreach my $entry (@{ $redis->entries('r') }) { $wrong++ if ($last{ $entry->{key} } // 0) > $entry->{payload}; $last{ $entry->{key} } = $entry->{payload} }
is($wrong // 0, 0, 'in order');
no_server_crashed($node);
done_testing();
