# forget(..., undelivered => true) while a lane parks what is erased: the lane has read the events and not parked them yet, or
# has parked them and not committed. Of a key that is paused, and of events that are due later; on one route and on two, by one
# worker and by two; with events of other keys among them. Nothing of the key is parked afterwards or sent, all else comes (what
# a lane had sent beside it once or twice: it reads it again), and what is emitted later of the key.
# matrix: G9
use strict;
use warnings;

use IPC::Run ();
use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 2\n");
my $redis = Outbox::Redis->start;
my @routes = qw(r s);
redis_route($node, $redis, $_, topic => "'to-$_'", lanes => 2) foreach @routes;
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub came { my ($route, $key) = @_; return scalar grep { $_->{payload} =~ /"of": "$key"/ } @{ $redis->entries("to-$route") } }
sub emit { my ($key, $more) = @_; return sql(qq(SELECT outbox.emit('person', '$key', 'e', '{"of": "$key"}'@{[$more // '']}))) }

sub forget
{
	my ($key) = @_;
	my $call = { out => '', err => '' };
	$call->{run} = IPC::Run::start([ 'psql', '-XAtd', $node->connstr('postgres'), '-c', "CALL outbox.forget('person', '$key', undelivered => true, dry_run => false)" ],
		'>', \$call->{out}, '2>', \$call->{err}, IPC::Run::timeout(120));
	return $call;
}

my $number = 0;
foreach my $point (qw(parked.park.before parked.park.uncommitted))
{
	foreach my $why ('paused', 'due later')
	{
		$number++;
		my ($key, $other) = ("key$number", "other$number");
		my $what = "$point, $why";
		my $more = $why eq 'paused' ? '' : q(, deliver_at => now() + interval '1 hour');
		if ($why eq 'paused')
		{
			sql("SELECT outbox.pause('$_', aggregate_type => 'person', aggregate_id => '$key', reason => 'test')") foreach @routes;
			ok(wait_idle($node), "$what: the workers know of the pause");
		}
		Outbox::Faults::arm($point, 'wait *');
		my @ids = split /\n/, sql(qq(SELECT outbox.emit('person', k, 'e', format('{"of": "%s"}', k)::jsonb$more) FROM unnest('{$key,$other-a,$key,$other-b}'::text[]) k));
		ok(wait_until(sub { Outbox::Faults::waiting($point) }, 30), "$what: a lane is about to park");
		my $call = forget($key);
		if ($point =~ /uncommitted/)
		{
			ok(wait_for_value($node, q(SELECT count(*) > 0 FROM pg_stat_activity WHERE query ~ '^CALL outbox.forget' AND wait_event_type = 'Lock'), 't', 30), "$what: forget() waits for it");
			Outbox::Faults::release($point);
		}
		$call->{run}->finish;
		Outbox::Faults::release($point);
		is($call->{out}, "2|0\n", "$what: both are erased, and none is kept") or diag $call->{err};

		# Each lane has come past it.
		ok(wait_until(sub { sql(q(SELECT coalesce(sum(inflight), 0) FROM outbox.lag)) eq '0' }, 30), "$what: nothing is in flight");
		emit("$other-$_") foreach qw(a b);
		my $each = $why eq 'paused' ? 2 : 1;
		foreach my $route (@routes)
		{
			ok(wait_until(sub { came($route, "$other-a") >= $each && came($route, "$other-b") >= $each }, 30), "$what: all else comes to $route");
			cmp_ok(came($route, "$other-$_"), '<=', 2 * $each - 1, "$what: none more often than the lane was put down") foreach qw(a b);
		}
		is(sql("SELECT count(*) FROM outbox_internal.parked WHERE aggregate_id = '$key'"), '0', "$what: nothing of the key is parked");
		is(sql("SELECT string_agg(DISTINCT s.state, ' ') FROM unnest('{$ids[0],$ids[2]}'::uuid[]) i, outbox.status(i) s"), 'skipped', "$what: and status() says so");
		is(sql(qq(SELECT count(*) FROM outbox_internal.parked WHERE aggregate_id LIKE '$other%')), $why eq 'paused' ? '0' : '4', "$what: other keys wait for their time");
		is(sql(qq(SELECT count(*) FROM outbox_internal.parked WHERE payload IS NULL OR payload = '')), '0', "$what: as they are");

		emit($key);
		if ($why eq 'paused')
		{
			sql("SELECT outbox.resume('$_', aggregate_type => 'person', aggregate_id => '$key')") foreach @routes;
		}
		foreach my $route (@routes)
		{
			ok(wait_until(sub { came($route, $key) > 0 }, 30), "$what: a later event of the key comes to $route");
		}
		ok(wait_idle($node), "$what: and that is all");
		is(came($_, $key), 1, "$what: none of those that were erased came to $_") foreach @routes;
	}
}

is(sql('SELECT count(*) FROM outbox_internal.lane WHERE owner IS NULL'), '0', 'every lane has a worker');
$node->stop;
done_testing();
