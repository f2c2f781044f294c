# What nobody sees by traffic: a delayed event whose topic is in trouble when it is due shows in lag, status(), doctor() and the
# log, and goes when that is over; and the destination of an idle worker is closed again after its Redis was restarted.
# matrix: D6 R18
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('{aggregate_type}'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub state_of { return sql(q{SELECT state FROM outbox.destination WHERE server = 'redis'}) }

# One, two, and one beside them that is well; with a key and without. What is due when it is read is not parked: so some seconds.
$redis->command('SET', 'bad', 'a string');
my @late = map { sql(qq{SELECT outbox.emit('bad', $_, 'x', '{}', deliver_at => now() + interval '4 s')}) } q('k'), 'NULL::text';
my $well = sql(q{SELECT outbox.emit('well', 'k', 'x', '{}', deliver_at => now() + interval '4 s')});
is(sql("SELECT outbox.wait_for('$well', '60 s')"), 't', 'a topic that is well gets its delayed event');
ok(wait_for_value($node, q{SELECT overdue || ' ' || pending || ' ' || (delay > interval '1 s')::text FROM outbox.lag}, '2 0 true', 30),
	'lag counts the others as overdue, with a delay');
ok(wait_for_value($node, q{SELECT error_class || ' ' || error_code FROM outbox.lag}, 'topic WRONGTYPE', 30), 'and says what is in the way');
foreach my $id (@late)
{
	ok(wait_for_value($node, "SELECT state || ' ' || error_class || ' ' || error_code || ' ' || attempts || ': ' || reason FROM outbox.status('$id')",
		'due topic WRONGTYPE 0: waits for topic "bad"', 30), 'status() says what it waits for');
}
ok(wait_for_value($node, q{SELECT count(*) FROM outbox.doctor() WHERE "check" = 'overdue' AND status = 'warning' AND detail ~ '^2 parked events are due.*topic "bad" of route "redis": WRONGTYPE'}, '1', 30),
	'doctor() finds them');
ok(wait_until(sub { slurp_file($node->logfile) =~ /WARNING:  outbox: topic "bad" of route "redis" is in trouble: .*WRONGTYPE/ }, 30), 'and the log has a line');
my (undef, $idle, $notice) = $node->psql('postgres', q{SELECT outbox.wait_until_idle('0')});
is($idle, 'f', 'the outbox is not idle');
like($notice, qr/NOTICE:  the outbox is not idle within the timeout\nDETAIL:  .*2 events due and not gone/, 'and says what is left');
(undef, $idle, $notice) = $node->psql('postgres', "SELECT outbox.wait_for('$late[0]', '0')");
like($notice, qr/DETAIL:  On route "redis" it is due: WRONGTYPE/, 'wait_for() says why');

$redis->command('DEL', 'bad');
ok(wait_until(sub { $redis->xlen('bad') == 2 }, 90), 'they go when the key is of the right type');
ok(wait_for_value($node, q{SELECT overdue || ' ' || (delay IS NULL)::text || ' ' || coalesce(error_code, 'no error') FROM outbox.lag}, '0 true no error', 60),
	'and nothing is left of it');
is($redis->xlen('bad'), 2, 'each once');

# Twice: the second time from closed as well.
foreach my $round (1, 2)
{
	$redis->stop;
	ok(wait_until(sub { state_of() ne 'closed' }, 60), 'Redis is away, which is noticed without traffic');
	$redis->restart;
	ok(wait_until(sub { state_of() eq 'closed' }, 60), "and closed without traffic, when it is back ($round)");
}
my $id = sql(q{SELECT outbox.emit('well', 'k', 'x', '{}')});
is(sql("SELECT outbox.wait_for('$id', '60 s')"), 't', 'it delivers');
no_server_crashed($node);
done_testing();
