# A worker parks an event while alter_route(topic => ...) is not committed, and the server ends before it can know: the
# next owner of the lane gives the event its new key, and later events of the key wait for it.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.max_payload_size = '20MB'\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('t0'), on_failure => q('block'));

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub parked { my ($id, $wanted, $what) = @_; return ok(wait_for_value($node, "SELECT state || ' ' || topic FROM outbox_internal.parked WHERE id = '$id'", $wanted, 60), $what) }

sql(q{SELECT outbox.emit_text('order', 'first', 'x', 'first')});
ok(wait_idle($node), 'the route works');
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', '1048576');

my $session = $node->background_psql('postgres', on_error_stop => 0, timeout => 300);
$session->query_safe(q{SET client_min_messages = error; BEGIN; SELECT outbox.alter_route('r', topic => 't1')});
my $refused = sql(q{SELECT outbox.emit_text('order', 'a', 'x', repeat('E', 2000000))});
parked($refused, 'dead t0', 'an event is refused and parked under the old name');
ok(wait_idle($node), 'its lane has noted that it is past it');
kill 'STOP', relay_pids($node);
$session->query_safe('COMMIT');
$session->quit;
$node->stop('immediate');
$node->start;

parked(sql(q{SELECT outbox.emit_text('order', 'a', 'x', 'L')}), 'blocked t1', 'a later event of its key waits for it');
is(sql("SELECT state || ' ' || topic FROM outbox_internal.parked WHERE id = '$refused'"), 'dead t1', 'which has the new name');
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', '536870912');
sql("SELECT outbox.retry('$refused')");
ok(wait_idle($node, 60), 'it is tried again');
is(join(' ', map { substr $_->{payload}, 0, 1 } @{ $redis->entries('t1') }), 'E L', 'and they arrive in their order');
done_testing();
