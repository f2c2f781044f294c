# forget() of a key while its events are on their way to outbox_internal.parked: a topic leaves its lane (a fork parks what it
# was refused), a replay copies from the log. What was erased is neither parked nor sent afterwards.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('to-{aggregate_type}'), start => q('earliest'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub start
{
	my ($query) = @_;
	my %call = (out => '', err => '');
	$call{run} = IPC::Run::start([ 'psql', '-XAtd', $node->connstr('postgres'), '-c', $query ], '>', \$call{out}, '2>', \$call{err}, IPC::Run::timeout(120));
	return \%call;
}
sub forget { return start("CALL outbox.forget('person', '$_[0]', undelivered => true, dry_run => false)") }

# --- a fork ---
foreach my $point (qw(fork.before fork.uncommitted))
{
	$redis->command('SET', 'to-person', 'no stream');
	Outbox::Faults::arm($point, 'wait *');
	my $key = "key-$point";
	sql(qq(SELECT outbox.emit('person', '$key', 'e', '{"of": "$key"}'), outbox.emit('person', 'later', 'e', '{}', deliver_at => now() + interval '1 hour')));
	ok(wait_until(sub { Outbox::Faults::waiting($point) }, 30), "$point: a topic is about to leave");
	my $forget = forget($key);
	# It erases, and waits for the fork where that has begun to park.
	wait_until(sub { $forget->{run}->pump_nb; $forget->{out} ne '' || sql(q(SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL outbox.forget%' AND wait_event_type = 'Lock')) }, 20);
	Outbox::Faults::release($point);
	$forget->{run}->finish;
	like($forget->{out}, qr/^1\|0$/m, "$point: one event is erased");
	is(sql("SELECT count(*) FROM outbox_internal.parked WHERE aggregate_id = '$key' AND payload IS NOT NULL"), '0', "$point: nothing of the key is parked");
	$redis->command('DEL', 'to-person');
	sql(q(SELECT outbox.emit('person', 'after', 'e', '{}')));
	ok(wait_idle($node), "$point: the topic is back");
	is(scalar(grep { $_->{payload} =~ /\Q$key\E/ } @{ $redis->entries('to-person') }), 0, "$point: nothing of the key is sent");
	sql(q(CALL outbox.forget('person', 'later', undelivered => true, dry_run => false)));
	is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', "$point: nothing is left over");
	ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.side_lane', 0, 60), "$point: it goes with its lane again");
	$redis->command('DEL', 'to-person');
}

# --- a replay ---
sql(q(SELECT outbox.emit('person', k, 'e', format('{"of": "%s"}', k)::jsonb) FROM unnest('{key,other}'::text[]) k));
ok(wait_idle($node), 'two events are delivered');
sql(q(SET outbox.allow_loss = on; CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN new; END $$;
	CREATE TRIGGER slow AFTER INSERT ON outbox_internal.parked FOR EACH ROW WHEN (new.replay <> 0) EXECUTE FUNCTION public.slow()));
sql(q(SELECT outbox.pause('r', reason => 'test')));
my $holder = $node->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(7)');
my $replay = start(q{CALL outbox.replay(since => '-infinity', route => 'r', aggregate_id => 'key', reason => 'test', dry_run => false)});
ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL outbox.replay%' AND wait_event = 'advisory'), 1), 'a replay has copied, and has not committed');
my $forget = forget('key');
wait_until(sub { $forget->{run}->pump_nb; $forget->{out} ne '' || sql(q(SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL outbox.forget%' AND wait_event_type = 'Lock')) }, 20);
is($forget->{out}, '', 'forget() waits for it');
$holder->query_safe('SELECT pg_advisory_unlock(7)');
$holder->quit;
$replay->{run}->finish;
$forget->{run}->finish;
is(sql(q(SELECT count(*) FROM outbox_internal.parked WHERE aggregate_id = 'key')), '0', 'and takes what it has copied');
sql(q(SELECT outbox.resume('r')));
ok(wait_idle($node), 'idle');
is(scalar(grep { /"key"/ } @{ $redis->column('to-person', 'payload') }), 1, 'it is not sent again');
no_server_crashed($node);
done_testing();
