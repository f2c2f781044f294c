# matrix: E-5 E-11
# A Redis comes back without what it acknowledged last, to a worker that has not noted it yet; another worker looks first,
# finds all that is noted, and others have written to our streams since, or one of these has ids of tomorrow. What the second
# worker notes then is looked for as well: by itself, or by whoever comes after it. Where it is there, nothing is sent again, and nothing is said.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 2\nrestart_after_crash = on");
my $redis = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub stream { my ($route) = @_; return "outbox.event.$route" }
sub arrived { my ($route) = @_; return by_key([ grep { defined } map { $_->{payload} } @{ $redis->entries(stream($route)) } ])->{k} // '' }
sub repeated { my %seen; return scalar grep { $seen{$_}++ } split / /, arrived($_[0]) }
sub told { return sql(q{SELECT coalesce(string_agg(route, ' ' ORDER BY at), '') FROM outbox.audit WHERE action IN ('rewind', 'lost writes')}) }
sub warnings { return scalar(() = slurp_file($node->logfile) =~ /WARNING:.*has lost/g) }
sub runs { return sql('SELECT count(*) FROM outbox_internal.server_run') }
# Under the newest run; a worker notes that without a flush.
sub a_was_looked_at
{
	return sql(q{SELECT count(*) FROM outbox_internal.progress g JOIN outbox.route r ON r.id = g.route_id AND r.name = 'a'
	  WHERE g.run = (SELECT m.run FROM outbox_internal.server_run m ORDER BY m.number DESC LIMIT 1)}) > 0;
}
my %sent = (a => 0, b => 0);
sub emit { my ($route) = @_; $sent{$route}++; emit_counted($node, $route, ['k'], $sent{$route}, $sent{$route}); return }
# What both workers have had acknowledged is noted.
sub at_rest
{
	my ($what) = @_;
	ok(wait_idle($node, 120), "$what: idle");
	return ok(wait_for_value($node, q{SELECT count(*) FROM outbox.lag WHERE inflight > 0}, 0, 60), "$what: all of it is acknowledged");
}

sql("CREATE SERVER r FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
sql("SELECT outbox.create_route('$_', server => 'r', aggregate_types => '{$_}')") foreach qw(a b);
# One that two workers wrote to and that comes back, to the worker of a first, while the one of b has not noted its last event yet.
sub round
{
	my ($what, %how) = @_;
	my %repeated = map { $_ => repeated($_) } qw(a b);
	ok(wait_for_value($node, 'SELECT count(DISTINCT owner), count(owner) FROM outbox_internal.lane', '2|2', 120), "$what: each route has a worker of its own");
	Outbox::Faults::put('save.after', 'sleep * 0');
	emit('b');
	at_rest($what);
	Outbox::Faults::disarm('save.after');
	my ($pid) = slurp_file("$ENV{OUTBOX_FAULT_DIR}/hits") =~ /.*^save\.after sleep (\d+)$/ms;
	emit('a');
	emit('b');
	at_rest($what);
	my @others = grep { $_ != $pid } relay_pids($node);
	is(@others, 1, "$what: there is one other worker");
	my ($before, $runs, $warnings, $crashes) = (told(), runs(), warnings(), crash_restarts($node));
	$redis->command('SAVE');
	Outbox::Faults::arm('save.before', 'wait');
	emit('b');
	Outbox::Faults::await_waiting('save.before');
	is((split / /, arrived('b'))[-1], $sent{b}, "$what: an event has arrived that is not noted");
	$redis->command('SAVE') if $how{whole};
	kill 'STOP', @others;
	$redis->kill9;
	$redis->restart;
	$redis->command('XADD', stream('a'), '*', 'their', 'own') if $how{others};
	Outbox::Faults::arm('save.after', $how{after}) if $how{after};
	Outbox::Faults::arm('rewind.before', 'wait') if $how{unlooked};
	kill 'CONT', @others;
	ok(wait_until(sub { runs() > $runs }, 60), "$what: the other worker has met it");
	# Where b is noted before a was looked at under this run, a is judged by what b shows, which is more where ids are ahead.
	ok($how{unlooked} ? Outbox::Faults::await_waiting('rewind.before', 60) : wait_until(\&a_was_looked_at, 60), "$what: a was looked at, or is about to be");
	Outbox::Faults::release('save.before');
	if ($how{after})
	{
		ok(wait_until(sub { !Outbox::Faults::armed('save.after') }, 60), "$what: it has noted that, and is gone");
		ok(server_is_back($node, $crashes), "$what: the server is back");
		Outbox::Faults::release('rewind.before');
	}
	if (!$how{whole})
	{
		ok(wait_until(sub { told() ne $before }, 60), "$what: the loss is noticed");
	}
	emit($_) foreach qw(a b);
	at_rest($what);
	foreach my $route (qw(a b))
	{
		my %seen;
		is(join(' ', grep { !$seen{$_}++ } split / /, arrived($route)), join(' ', 1 .. $sent{$route}), "$what: all of $route is there, in order");
	}
	if ($how{whole})
	{
		is(repeated($_), $repeated{$_}, "$what: none of $_ came twice") foreach qw(a b);
		is(told(), $before, "$what: nothing was put back");
		is(warnings(), $warnings, "$what: and nothing said");
	}
	else
	{
		# Of a lane that was not looked at before the loss was known, ids that are ahead of the clock do not tell what is there:
		# it is put back as well, and what is there arrives twice. Nothing is lost by that, and the warning of such ids says it.
		my @put_back = split / /, substr told(), length $before;
		is(join(' ', sort grep { $_ ne '' } @put_back), $how{unlooked} ? 'a b' : 'b', "$what: the lane that has lost something was put back, once");
	}
	return;
}

round('whole', whole => 1);
round('whole, and others write', whole => 1, others => 1);
round('others write', others => 1);
my $tomorrow = (time + 86_400) * 1000;
$redis->command('XADD', stream('a'), "$tomorrow-0", 'their', 'own');
emit('a');
at_rest('ids of tomorrow');
round('ids of tomorrow');
round('ids of tomorrow, whole', whole => 1);
no_server_crashed($node);

# With the worker the server ends, and comes back. That a was looked at is noted then, on disk: b's own note came later.
round('the worker is gone', others => 1, after => 'exit');
round('and a was not looked at', others => 1, after => 'exit', unlooked => 1);
done_testing();
