# What was emitted while the clock was ahead has dates of the future after reset_clock(force => true), and is waited for all the same:
# wait_until_idle() is true when it is delivered, from the log and from where it is parked, and not before; and it does not wait for what is emitted later.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'a', topic => q('a'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub idle { my ($timeout) = @_; my ($code, $out, $err) = $node->psql('postgres', "SELECT outbox.wait_until_idle('$timeout')"); return "$out $err" }
sub came { return join ' ', map { $_->{payload} } @{ $redis->entries('a') } }

sql(q{SELECT outbox.emit('o', 'k', 'e', '"before"')});
ok(wait_idle($node), 'the route works');
sql(q{SELECT setval('outbox_internal.clock_ceiling', (extract(epoch FROM now() + interval '3 days') * 1000000)::bigint)});
$node->stop('immediate');
$node->start;
sql(q{SELECT outbox.pause('a', aggregate_type => 'o', aggregate_id => 'held', reason => 'a test')});
sql(q{SELECT outbox.emit('o', 'held', 'e', '"parked"')});
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE created_at > now() + interval '2 days'}, '1', 60), 'an event of the future is parked');
sql(q{SELECT outbox.pause('a', reason => 'a test')});
ok(wait_for_value($node, q{SELECT bool_and(state = 'paused') FROM outbox.lag}, 't', 60), 'the route is paused');
sql(q{SELECT outbox.emit('o', 'k', 'e', '"log"')});
sql(q{SELECT outbox.reset_clock(force => true)});
is(sql(q{SELECT count(*) FROM outbox_internal.log WHERE created_at > now() + interval '2 days'}), '2', 'both have dates of the future');

like(idle('300 ms'), qr/^f .*is paused.*Parked: 1 event blocked/s, 'both are waited for');
sql(q{SELECT outbox.resume('a')});
ok(wait_until(sub { came() =~ /"log"/ }, 60), 'the one of the log is delivered');
like(idle('300 ms'), qr/^f .*Parked: 1 event blocked/s, 'the parked one is still waited for');
sql(q{SELECT outbox.resume('a', aggregate_type => 'o', aggregate_id => 'held')});
like(idle('60 s'), qr/^t /, 'until it is let go');
is(came(), '"before" "log" "parked"', 'then both are delivered');

# What is emitted after the call is not waited for.
sql(q{SELECT outbox.pause('a', reason => 'a test')});
ok(wait_for_value($node, q{SELECT bool_and(state = 'paused') FROM outbox.lag}, 't', 60), 'paused again');
sql(q{SELECT outbox.emit('o', 'k', 'e', '"first"')});
my $said = '';
my $call = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', q{SELECT outbox.wait_until_idle('120 s')} ], '<', \undef, '>&', \$said, IPC::Run::timeout(300));
ok(wait_for_value($node, q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT outbox.wait_until_idle(''120%' AND wait_event_type = 'Extension'}, '1', 60), 'a call waits');
sql(q{SELECT outbox.pause('a', aggregate_type => 'o', aggregate_id => 'later', reason => 'a test')});
sql(q{SELECT outbox.emit('o', 'later', 'e', '"later"')});
sql(q{SELECT outbox.resume('a')});
$call->finish;
is($said, "t\n", 'the call ends: what was emitted before it is delivered');
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked}, '1', 60), 'while what came later is parked');
is(came(), '"before" "log" "parked" "first"', 'and not delivered');

no_server_crashed($node);
done_testing();
