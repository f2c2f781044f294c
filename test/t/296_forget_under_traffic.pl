# forget(..., undelivered => true) right behind a commit, while others emit: what the route has delivered is told as delivered, what it
# gave up never came, and of what nobody can know it says so. Of two routes, one paused; without a worker; beside a transaction that
# is open; called twice; while lanes are moved; while the destination is away. Lanes that stand still are not waited for.
# matrix: G9
use strict;
use warnings;

use IPC::Run ();
use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node(conf => "outbox.lone_emit = allow\n");
# A file that is synced for each answer says how busy the disk is.
my $redis = Outbox::Redis->start(conf => ['appendfsync no']);
redis_route($node, $redis, 'redis', topic => q('all'), lanes => 2);
sub sql { return $node->safe_psql('postgres', @_) }
sub stream { my ($field, $stream) = @_; return map { $_->{$field} // () } @{ $redis->entries($stream // 'all') } }
sub set { my ($setting) = @_; sql("ALTER SYSTEM SET $setting"); return sql('SELECT pg_reload_conf()') }
sub state_of { my ($id, $route) = @_; return sql(qq(SELECT state || coalesce(' ' || error_message, '') FROM outbox.status('$id') WHERE route = '@{[$route // 'redis']}')) }
my $doubt = qr/may have sent it before/;

my $number = 0;
sub emit_and_forget
{
	my ($key) = @_;
	$number++;
	my ($status, $out, $said) = $node->psql('postgres', qq(
		SELECT outbox.emit('person', '$key', 'e', '{"n": $number}');
		CALL outbox.forget('person', '$key', undelivered => true, dry_run => false);), on_error_stop => 1);
	is($status, 0, "forget() of $key") or diag $said;
	return { id => (split /\n/, $out)[0], n => $number, said => $said };
}

# Whether what is told of each is what came. What nobody can know may be either.
sub is_truth
{
	my ($what, @events) = @_;
	my %came = map { /"n": (\d+)/ ? ($1 => 1) : () } stream('payload');
	my (%told, @lies);
	foreach my $event (@events)
	{
		my $state = state_of($event->{id});
		my $come = $came{ $event->{n} } // 0;
		my $known = $state !~ $doubt;
		$told{ $known ? $state : 'in doubt' }++;
		push @lies, "$event->{n}: $state, came $come" if $known && ($state =~ /^delivered/) != $come || $state !~ /^(delivered|skipped)/;
		push @lies, "$event->{n}: in doubt, and the call did not say so" if !$known && $event->{said} !~ /may have been sent before/;
	}
	is_deeply(\@lies, [], "$what: " . join(', ', map { "$told{$_} $_" } sort keys %told));
	return $told{delivered} // 0;
}

ok(wait_idle($node), 'the route works');
my @events = map { emit_and_forget("quiet$_") } 1 .. 10;
# A lane has a second; a machine that stands still for longer is no fault of a lane. None was told so before lanes were waited for.
cmp_ok(is_truth('at rest', @events), '>=', 5, 'delivered, and told so');

# Others emit all the time, of the same key, too.
sql('CREATE TABLE stop_emitting ()');
my $emitter = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', q(DO $$ BEGIN
	FOR n IN 1000000 .. 2000000 LOOP
		EXIT WHEN to_regclass('stop_emitting') IS NULL;
		PERFORM outbox.emit('person', 'other' || n % 16, 'e', '{"other": true}');
		PERFORM outbox.emit('person', 'busy', 'e', format('{"busy": %s}', n)::jsonb);
		COMMIT; PERFORM pg_sleep(0.002);
	END LOOP; END $$) ], '<', \undef, '>&', \my $out);
ok(wait_until(sub { grep { /"busy"/ } stream('payload') }, 60), 'others emit');
@events = map { emit_and_forget($_ % 2 ? 'busy' : "traffic$_") } 1 .. 10;
cmp_ok(is_truth('under traffic', @events), '>=', 5, 'delivered, and told so');

# Lanes are moved meanwhile: by a change of their number, and by seek().
@events = ();
for my $round (1 .. 4)
{
	sql("SELECT outbox.alter_route('redis', lanes => " . ($round % 2 ? 4 : 2) . ')');
	push @events, emit_and_forget("changed$round");
	sql(q(CALL outbox.seek('redis', 'infinity', dry_run => false))) if $round == 3 && wait_for_value($node, q(SELECT bool_and(lanes_wanted IS NULL) FROM outbox.route), 't', 60);
	push @events, emit_and_forget("moved$round");
}
sql('DROP TABLE stop_emitting');
$emitter->finish;
ok(wait_idle($node), 'idle');
is_truth('while lanes are moved', @events);
is(sql(q(SELECT count(*) FROM (SELECT id FROM outbox_internal.log WHERE aggregate_id = 'busy' AND payload <> '' ORDER BY created_at DESC LIMIT 300) l, outbox.status(l.id) s WHERE s.state <> 'delivered')),
	'0', 'what was committed since was left alone, and delivered');

# Called twice.
my $twice = emit_and_forget('twice');
my $state = state_of($twice->{id});
is(sql(q(CALL outbox.forget('person', 'twice', undelivered => true, dry_run => false))), '0|0', 'a second time there is nothing');
is(state_of($twice->{id}), $state, 'and what is told does not change');

# A transaction is open at the moment: what it commits later is left alone, though its clock reading is older.
my $session = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$session->query_safe('BEGIN');
my $open = $session->query_safe(q(SELECT outbox.emit('person', 'open', 'e', '{"n": "open"}')));
my $committed = emit_and_forget('open');
$session->query_safe('COMMIT');
$session->quit;
ok(wait_idle($node), 'idle');
is_truth('beside an open transaction', $committed);
is(state_of($open), 'delivered', 'what was committed later is delivered');
is(sql("SELECT convert_from(payload, 'UTF8') FROM outbox_internal.log WHERE id = '$open'"), '{"n": "open"}', 'and not erased');

# Two routes, one paused.
redis_route($node, $redis, 'second', topic => q('second'));
sql(q(SELECT outbox.pause('second', reason => 'test')));
ok(wait_for_value($node, q(SELECT bool_and(state = 'paused') FROM outbox.lag WHERE route = 'second'), 't', 60), 'paused');
@events = map { emit_and_forget("two$_") } 1 .. 5;
cmp_ok(is_truth('of the one that goes on', @events), '>=', 2, 'delivered, and told so');
is(join(' ', map { state_of($_->{id}, 'second') } @events), join(' ', ('skipped erased by outbox.forget()') x 5), 'of the other one given up, without a doubt');

# Both stand still: nothing is waited for. One of three tries is quick, whatever else the machine does.
sql(q(SELECT outbox.pause('redis', reason => 'test')));
ok(wait_for_value($node, q(SELECT bool_and(state = 'paused') FROM outbox.lag), 't', 60), 'both are');
my $shortest = 1000;
@events = ();
for (1 .. 3)
{
	my $began = time;
	push @events, emit_and_forget("paused$_");
	my $took = time - $began;
	$shortest = $took if $took < $shortest;
}
cmp_ok($shortest, '<', 0.9, 'nothing is waited for');
sql(q(SELECT outbox.resume(r) FROM unnest('{redis,second}'::text[]) r));
ok(wait_idle($node), 'resumed');
is(is_truth('paused', @events), 0, 'none came');
is(scalar(stream('payload', 'second')), 0, 'nor by the second route');

# No worker.
set('outbox.workers = 0');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.worker WHERE kind = 'relay' AND state = 'running'), '0', 60), 'no worker');
$shortest = 1000;
@events = ();
for (1 .. 3)
{
	my $began = time;
	push @events, emit_and_forget("alone$_");
	my $took = time - $began;
	$shortest = $took if $took < $shortest;
}
cmp_ok($shortest, '<', 0.9, 'nothing is waited for');
set('outbox.workers = 1');
ok(wait_idle($node), 'there is one again');
is(is_truth('without a worker', @events), 0, 'none came');

# The destination takes what it gets, and answers nothing: nobody can know.
$redis->pause;
my $sent = sql(q(SELECT outbox.emit('person', 'unanswered', 'e', '{"n": "unanswered"}')));
ok(wait_for_value($node, q(SELECT sum(inflight) FROM outbox.lag WHERE route = 'redis'), '1', 60), 'in flight');
my (undef, undef, $said) = $node->psql('postgres', q(CALL outbox.forget('person', 'unanswered', undelivered => true, dry_run => false)));
like($said, qr/DETAIL: +Of what it gave up, [12] may have been sent before/, 'it says so');
like(state_of($sent), $doubt, 'status() says so');
is(sql(q(SELECT (detail ->> 'in_hand')::int > 0 FROM outbox.audit WHERE action = 'forget' ORDER BY at DESC LIMIT 1)), 't', 'the audit says so');
$redis->cont;
ok(wait_idle($node), 'it answers');
ok(wait_for_value($node, "SELECT count(*) FROM outbox.status('$sent') WHERE state IN ('skipped', 'delivered')", '2'), 'and the routes go on');

no_server_crashed($node);
$node->stop;
done_testing();
