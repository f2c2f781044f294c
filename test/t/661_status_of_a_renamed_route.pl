# What a route did under a name that it has no more (UPDATE outbox.route SET name): status() has the topic of then and its places,
# and why an event was skipped; replay() tells what retry() had edited. Of a route that has the old name since nothing of that is told.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('old'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub emit { my ($key) = @_; return sql(qq(SELECT outbox.emit('order', '$key', 'x', '1'))) }
my $delivered = emit('1');
ok(wait_idle($node), 'delivered');
sql(q(SELECT outbox.pause('r', aggregate_type => 'order', aggregate_id => 'bad', reason => 'bad')));
my $skipped = emit('bad');
my $edited = sql(q(SELECT outbox.emit('order', 'edited', 'x', '1', deliver_at => now() + interval '1 hour')));
ok(wait_for_value($node, "SELECT state FROM outbox.status('$skipped')", 'blocked', 60), 'held');
ok(wait_for_value($node, "SELECT state FROM outbox.status('$edited')", 'scheduled', 60), 'the other one is delayed');
sql("SELECT outbox.skip('$skipped', reason => 'ticket 4711')");
sql("SELECT outbox.retry('$edited', payload => '2', reason => 'was wrong')");
ok(wait_for_value($node, "SELECT state FROM outbox.status('$edited')", 'delivered', 60), 'edited and delivered');
sub said { my ($id, $route) = @_; return sql("SELECT state, topic, places IS NOT NULL, reason FROM outbox.status('$id') WHERE route = '$route'") }
sql(q(SELECT outbox.alter_route('r', topic => 'new')));
my @said = map { said($_, 'r') } $delivered, $skipped;
is($said[0], 'delivered|old|t|', 'before: the topic of then');
is($said[1], 'skipped|old|f|ticket 4711', 'and the reason');

# Twice.
foreach my $names ([ 'r', 'r2' ], [ 'r2', 'r3' ])
{
	my ($from, $to) = @$names;
	sql("UPDATE outbox.route SET name = '$to' WHERE name = '$from'");
	is(said($delivered, $to), $said[0], "$to: the same");
	is(said($skipped, $to), $said[1], "$to: the same of what was skipped");
	my (undef, undef, $told) = $node->psql('postgres', "CALL outbox.replay(since => '-infinity', route => '$to')");
	like($told, qr/of these edited by retry\(\) before: 1 event/, "$to: and of what was edited");
}

# Another topic under the new name, too, by the same statement as another name.
my $second = emit('2');
ok(wait_idle($node), 'delivered');
is(said($second, 'r3'), 'delivered|new|t|', 'it went to the new one');
sql(q(UPDATE outbox.route SET name = 'r4', topic = 'newest' WHERE name = 'r3'));
is(said($second, 'r4'), 'delivered|new|t|', 'and is told so when it has another one');
is(said($delivered, 'r4'), $said[0], 'the first as before');

# Another route has the old name.
sql(q(SELECT outbox.create_route('r', server => 'r', topic => 'third')));
ok(wait_idle($node), 'there is another r');
is(said($delivered, 'r4'), $said[0], 'the first as before');
my (undef, undef, $told) = $node->psql('postgres', q(CALL outbox.replay(since => '-infinity', route => 'r')));
unlike($told, qr/edited by retry/, 'of which nothing was edited');

no_server_crashed($node);
$node->stop;
done_testing();
