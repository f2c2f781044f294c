# A route that knows its topics: what it has when the list comes, by the event's own topic or by its aggregate type, is a dead letter
# with a class of its own and no new stream; its neighbours go on. Sent to the right topic, or once the list has it, it arrives. What
# comes later is refused by emit() itself, in every session that is there already.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
redis_route($node, $redis, 'cache', max_attempts => 1);
sub emit_call { my ($type, $key, $topic) = @_; return "SELECT outbox.emit_text('$type', '$key', 'made', 'x'" . (defined $topic ? ", topic => '$topic'" : '') . ')' }
sub emit { return sql(emit_call(@_)) }
sub state_of { my ($id) = @_; return "SELECT state || ' ' || coalesce(error_code, '') FROM outbox.status('$id')" }
# The last error stays with an event that was delivered in the end.
sub delivered { my ($id) = @_; return "SELECT state = 'delivered' FROM outbox.status('$id')" }

sql(q{SELECT outbox.pause('cache', reason => 'until the list is there')});
my $misspelt = emit('ordre', 1);
my $by_topic = emit('order', 2, 'shpo.orders');
# Sessions that have emitted before the list came: it counts in them, too.
my @sessions = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 2;
$_->query_safe(emit_call('order', 9)) foreach @sessions;
sql(q{SELECT outbox.alter_route('cache', options => '{"topics_known": ["outbox.event.order", "shop.*"]}')});
foreach my $session (@sessions)
{
	$session->query(emit_call('ordre', 9));
	like($session->{stderr}, qr/route "cache" does not know the topic "outbox\.event\.ordre"/, 'a session that had emitted before is refused');
	$session->{stderr} = '';
	$session->query_safe(emit_call('order', 9));
	$session->quit;
}
my ($status, $out, $error) = $node->psql('postgres', emit_call('order', 2, 'shpo.orders'));
like($error, qr/does not know the topic "shpo\.orders"/, 'and a new one');
my $next = emit('order', 1);
my $known = emit('anything', 1, 'shop.orders');
sql(q{SELECT outbox.resume('cache')});
ok(wait_for_value($node, state_of($next), 'delivered ', 60), 'what is known goes');
ok(wait_for_value($node, state_of($known), 'delivered ', 60), 'by a pattern, too');
ok(wait_for_value($node, state_of($misspelt), 'dead TOPIC_NOT_KNOWN', 60), 'a misspelt aggregate type is a dead letter');
ok(wait_for_value($node, state_of($by_topic), 'dead TOPIC_NOT_KNOWN', 60), 'a misspelt topic, too');
is(join(' ', $redis->keys_like('*')), 'outbox.event.order shop.orders', 'and no new stream');
like(sql("SELECT error_class || ': ' || error_message FROM outbox.status('$by_topic')"), qr/^message: topic "shpo\.orders" is not among those that the route knows/, 'with what is wrong');

sql("SELECT outbox.retry('$by_topic', topic => 'shop.orders')");
ok(wait_for_value($node, delivered($by_topic), 't', 60), 'sent to the right topic it goes');
# In the middle of a transaction that has emitted, too.
my $inside = $node->background_psql('postgres', on_error_stop => 0);
$inside->query_safe('BEGIN; ' . emit_call('order', 9));
sql(q{SELECT outbox.alter_route('cache', options => '{"topics_known": ["outbox.event.*", "shop.*"]}')});
$inside->query(emit_call('ordre', 9));
is($inside->{stderr}, '', 'a transaction that is open takes the longer list at once');
$inside->query('ROLLBACK');
$inside->quit;
ok(wait_for_value($node, state_of(emit('ordre', 2)), 'delivered ', 60), 'a list that is changed counts at once');
sql(q{CALL outbox.redrive('cache', dry_run => false)});
ok(wait_for_value($node, delivered($misspelt), 't', 60), 'and once the list has the topic, too');
is(join(' ', $redis->keys_like('*')), 'outbox.event.order outbox.event.ordre shop.orders', 'where it was meant to');
sql(q{SELECT outbox.alter_route('cache', options => '{}')});
ok(wait_for_value($node, state_of(emit('other', 1, 'any.thing')), 'delivered ', 60), 'without a list every topic is known');
no_server_crashed($node);
done_testing();
