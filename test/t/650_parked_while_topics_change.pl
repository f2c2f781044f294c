# The topics of a route get other names while a lane parks: it cannot know yet, and alter_route() does not see what is parked
# meanwhile. Such events get their new keys as soon as the lane knows, and later events of their keys wait for them.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.max_payload_size = '20MB'\n");
my $redis = Outbox::Redis->start(conf => ['client-query-buffer-limit 1mb']);
redis_route($node, $redis, 'r', topic => q('t0'), max_attempts => 1000, backoff_base => q('1 s'), backoff_cap => q('1 s'));

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub emit { my ($key, $payload, $more) = @_; return sql("SELECT outbox.emit_text('order', '$key', 'x', $payload" . ($more // '') . ')') }
sub emit_large { my ($key) = @_; return emit($key, q{repeat('E', 2000000)}) }
sub becomes { my ($id, $wanted, $what) = @_; return ok(wait_for_value($node, "SELECT state || ' ' || topic FROM outbox_internal.parked WHERE id = '$id'", $wanted, 60), $what) }
sub sent { my ($topic, $key) = @_; return join ' ', map { substr $_->{payload}, 0, 1 } grep { $_->{key} eq $key } @{ $redis->entries($topic) } }

sub mended
{
	my ($topic, $key, $wanted) = @_;
	$redis->command('CONFIG', 'SET', 'client-query-buffer-limit', '1gb');
	ok(wait_idle($node, 90), "all of $topic is delivered");
	like(sent($topic, $key), $wanted, 'in the order of its key');
	$redis->command('CONFIG', 'SET', 'client-query-buffer-limit', '1mb');
	return;
}

emit('first', q{'first'});
ok(wait_idle($node), 'the route works');

# The transaction that gives them is open.
my $session = $node->background_psql('postgres', on_error_stop => 0, timeout => 300);
$session->query_safe(q{SET client_min_messages = error; BEGIN; SELECT outbox.alter_route('r', topic => 't1')});
my $refused = emit_large('a');
my $later = emit('s', q{'S'}, q{, deliver_at => clock_timestamp() + interval '1 day'});
becomes($refused, 'retrying t0', 'an event is refused and parked while alter_route() is not committed');
becomes($later, 'scheduled t0', 'another is parked until it is due');
$session->query_safe('COMMIT');
$session->quit;
becomes($_->[0], "$_->[1] t1", "what is $_->[1] is renamed when the lane knows of it") foreach [ $refused, 'retrying' ], [ $later, 'scheduled' ];
is(sql(q{SELECT bool_and(order_key = outbox_internal.order_key(topic, aggregate_type, aggregate_id)) FROM outbox_internal.parked}), 't', 'with their keys');
becomes(emit('a', q{'L'}), 'blocked t1', 'a later event of the key waits for it');
mended('t1', 'a', qr/^E L$/);

# A worker is about to park.
Outbox::Faults::arm('parked.park.before', 'wait');
$refused = emit_large('b');
ok(Outbox::Faults::await_waiting('parked.park.before', 60), 'a lane parks an event');
sql(q{SELECT outbox.alter_route('r', topic => 't2')});
Outbox::Faults::release('parked.park.before');
becomes($refused, 'retrying t2', 'while the names change: it is renamed');
becomes(emit('b', q{'L'}), 'blocked t2', 'and a later one waits for it');
mended('t2', 'b', qr/^E L$/);

# What it parks waits behind one that has its new name already, so under the old one behind nothing.
$refused = emit_large('c');
becomes($refused, 'retrying t2', 'one is refused');
Outbox::Faults::arm('parked.park.before', 'wait');
my $behind = emit('c', q{'L'});
ok(Outbox::Faults::await_waiting('parked.park.before', 60), 'one is parked behind it');
sql(q{SELECT outbox.alter_route('r', topic => 't3')});
Outbox::Faults::release('parked.park.before');
ok(wait_for_value($node, qq{SELECT NOT EXISTS (SELECT FROM outbox_internal.parked WHERE id = '$behind') OR 'blocked t3' = (SELECT state || ' ' || topic FROM outbox_internal.parked WHERE id = '$behind')}, 't', 60),
	'it goes under the old name, or waits under the new one');
mended('t3', 'c', qr/^E( L)?$/);

# By hand: nobody renames but the lane.
$refused = emit_large('d');
becomes($refused, 'retrying t3', 'one is refused');
sql(q{UPDATE outbox.route SET topic = 't4'});
becomes($refused, 'retrying t4', 'a route that is changed by hand: it is renamed');
becomes(emit('d', q{'L'}), 'blocked t4', 'and a later one waits for it');
mended('t4', 'd', qr/^E L$/);
no_server_crashed($node);
done_testing();
