# A topic that was paused, and is in trouble when it is resumed, has its trouble told wherever it is asked for: by doctor(), of
# the lanes that wait for it, too, by status() and by who waits. outbox.pause says what is paused, not why a topic once left.
# matrix: A14
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('{aggregate_type}'), lanes => 1);
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub doctor { my ($check) = @_; return sql(qq{SELECT string_agg(status || ': ' || detail || ' ' || coalesce(hint, ''), E'\n') FROM outbox.doctor() WHERE "check" = '$check'}) }
my $side = q(SELECT concat_ws(' ', state, pending, error_code) FROM outbox.lag WHERE side = 1);

sql(q(SELECT outbox.emit(t, 'k', 'x', '{}') FROM unnest('{once,other}'::text[]) t));
ok(wait_idle($node), 'both topics take events');

my $parked = sql(q(SELECT outbox.emit('once', 'late', 'x', '{}', deliver_at => now() + interval '1 day')));
ok(wait_for_value($node, q(SELECT count(*) FROM outbox_internal.parked), '1', 60), 'one that is delayed is parked');
sql(q(SELECT outbox.pause('redis', topic => 'once', reason => 'it is made anew')));
ok(wait_for_value($node, q(SELECT error_code FROM outbox_internal.side_topic), 'PAUSED', 60), 'the topic has left its lane');
sql(q(SELECT count(outbox.emit('once', 'k', 'x', '{}')) FROM generate_series(1, 15)));
sql(q(SET outbox.allow_loss = on; UPDATE outbox_internal.parked SET due_at = now() - interval '1 hour'));
is(doctor('topic'), '', 'while it is paused doctor() says so and no more');
like(doctor('pause'), qr/^warning: Topic "once" of route "redis" was paused by \w+: it is made anew/, 'under its own head');
like(doctor('overdue'), qr/topic "once" of route "redis": PAUSED: the topic is paused They follow by themselves once topic and destination take events/, 'what is due is paused, too');
like(($node->psql('postgres', q(SELECT outbox.wait_until_idle('0'))))[2], qr/topic "once" is paused/, 'and who waits is told');
sql(q(SELECT outbox.alter_route('redis', lanes => 2)));
like(doctor('lanes'), qr/It waits for the topics that have left their lanes, some of which are paused/, 'lanes wait for a topic that is paused');

$redis->command('DEL', 'once');
$redis->command('SET', 'once', 'no stream');
sql(q(SELECT outbox.resume('redis', topic => 'once')));
ok(wait_for_value($node, $side, 'backing off 15 WRONGTYPE', 60), 'it is tried again, and in trouble');
like(doctor('topic'), qr/^warning: Lane 0 of route "redis": topic "once" has left it: WRONGTYPE: .*move away what stands in its place/si, 'doctor() says so');
like(doctor('lanes'), qr/It waits for the topics that have left their lanes; meanwhile/, 'and advises no resume() where nothing is paused');
like(doctor('overdue'), qr/topic "once" of route "redis": WRONGTYPE: .*move away what stands in its place/si, 'what is due waits for it');
is(sql("SELECT concat_ws(' ', state, error_code, reason) FROM outbox.status('$parked')"), 'due WRONGTYPE waits for topic "once"', 'status() says it of what is due');
like(($node->psql('postgres', q(SELECT outbox.wait_until_idle('0'))))[2], qr/topic "once" has left it: WRONGTYPE/, 'and who waits is told');

# The other way round: it left because it was in trouble, and is paused until that is mended.
sql(q(SELECT outbox.pause('redis', topic => 'once', reason => 'we look')));
ok(wait_for_value($node, q(SELECT state FROM outbox.lag WHERE side = 1), 'paused', 60), 'paused in trouble');
is(doctor('topic'), '', 'doctor() has no word about its trouble');
like(doctor('pause'), qr/was paused by \w+: we look/, 'but about the pause');
like(doctor('lanes'), qr/some of which are paused \(outbox.resume\(\)\)/, 'for which the lanes wait');

$redis->command('DEL', 'once');
sql(q(SELECT outbox.resume('redis', topic => 'once')));
ok(wait_until(sub { $redis->xlen('once') == 16 }, 90), 'all arrives when it is mended');
ok(wait_for_value($node, q(SELECT lanes || ' ' || (lanes_wanted IS NULL)::text FROM outbox.route), '2 true', 90), 'and the lanes are two');
is(doctor('topic'), '', 'nothing is left to say');
no_server_crashed($node);
done_testing();
