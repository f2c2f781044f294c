# Where hundreds of lanes have nothing parked, one statement says so for all of them: what is parked then, in a few of them,
# goes when it is due all the same, with and without a key, also after a worker has died, and what an operator asks for at once.
# Thousands of them go quickly, too, whatever the statistics say of the table.
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node(conf => "outbox.workers = 2\noutbox.max_lanes = 400\nrestart_after_crash = on\nshared_preload_libraries = 'outbox,pg_stat_statements'\n");
$node->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements');
my $redis = Outbox::Redis->start;
my ($routes, $lanes) = (30, 8);

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql("CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
sql("SELECT outbox.create_route('r' || i, server => 'redis', aggregate_types => ARRAY['t' || i], topic => 's' || i, lanes => $lanes)
	FROM generate_series(1, $routes) i");
ok(wait_for_value($node, "SELECT count(*) FROM outbox.lag WHERE state = 'idle'", $routes * $lanes, 60), 'hundreds of lanes are idle');

# How many statements of lanes, each for itself, have looked for parked events or taken them.
sub looks { return sql(q{SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query ~ 'outbox_internal\.(parked|due|waiting|holding)' AND query ~ 'lane = \$'}) }
cmp_ok(looks(), '<', 10, 'nearly none of them has looked for parked events itself')
  or diag(sql(q{SELECT calls || ' ' || left(query, 200) FROM pg_stat_statements WHERE query ~ 'outbox_internal' ORDER BY calls DESC LIMIT 20}));

sub stream { my ($route) = @_; return [ map { $_->{payload} } @{ $redis->entries("s$route") } ] }
# Events that are due in so many seconds: in three of the routes, three keys and one without.
sub delay
{
	my ($name, $seconds) = @_;
	my $due = int((time + $seconds) * 1000);
	sql("SELECT outbox.emit_text('t' || r, k, 'x', '$name ' || coalesce(k, '-') || ' $due', deliver_at => to_timestamp($due / 1000.0))
		FROM unnest('{3, 17, 30}'::int[]) r, unnest('{a, b, c, NULL}'::text[]) k");
	return $due;
}
sub arrived
{
	my ($name, $due) = @_;
	my @expected = map { "$name $_ $due" } ('-', 'a', 'b', 'c');
	foreach my $route (3, 17, 30)
	{
		my $came = sub { return [ sort grep { /^$name / } @{ stream($route) } ] };
		wait_until(sub { @{ $came->() } >= 4 }, 20);
		is_deeply($came->(), \@expected, "$name: route $route, each once");
		my @early = grep { my ($at) = $_->{_entry} =~ /^(\d+)/; $_->{payload} =~ /^$name / && $at < $due } @{ $redis->entries("s$route") };
		is(scalar @early, 0, "$name: route $route, none before its time");
	}
	return;
}

arrived('first', delay('first', 2));
cmp_ok(looks(), '>', 3, 'those of three routes have, where something was parked');
# All is gone again; the next ones come while nobody holds anything.
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', 0, 20), 'nothing is parked any more');
my $due = delay('second', 3);
my $crashes = crash_restarts($node);
kill 'KILL', (relay_pids($node))[0];
server_is_back($node, $crashes);
arrived('second', $due);

# An operator's act, in one lane of hundreds. It wakes them all.
my $looks = looks();
sql("CALL outbox.replay(since => '-infinity', route => 'r17', aggregate_id => 'b', dry_run => false)");
ok(wait_until(sub { (grep { /^(first|second) b / } @{ stream(17) }) == 4 }, 20), 'what is replayed goes at once') or diag(explain(stream(17)));
is(scalar(grep { / b / } map { @{ stream($_) } } 3, 30), 4, '... and only that');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', 0, 20), 'nothing is left');
cmp_ok(looks(), '<', $looks + $routes * $lanes, 'and those of other routes have not looked') or diag(looks() . " now, $looks before");

# What workers planned while one event was parked, and its statistics say so, is as quick when thousands are.
sql("SELECT outbox.emit_text('t1', 'x', 'x', 'later', deliver_at => now() + interval '1 h')");
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', 1, 20), 'one event is parked, in an hour');
sql('VACUUM ANALYZE outbox_internal.parked');
$node->append_conf('postgresql.conf', 'autovacuum = off');
$node->reload;
sql("SET outbox.lone_emit = allow; SELECT count(outbox.emit_text('t2', (i % 1000)::text, 'x', 'many')) FROM generate_series(1, 20000) i");
ok(wait_until(sub { $redis->xlen('s2') == 20000 }, 60), 'thousands of events');
sql("SELECT outbox.emit_text('t2', 'one', 'x', 'late', deliver_at => now() + interval '1 s')");
ok(wait_until(sub { $redis->xlen('s2') == 20001 }, 20), 'one goes by way of what is parked');
my $before = time;
sql("CALL outbox.replay(since => '-infinity', route => 'r2', per_second => NULL, dry_run => false)");
ok(wait_until(sub { $redis->xlen('s2') >= 40002 }, 60), 'thousands are replayed in less than a minute')
  or diag('arrived: ' . $redis->xlen('s2'));
note(sprintf('%.1f s', time - $before));

done_testing;
