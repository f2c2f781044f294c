# A delayed event falls due while somebody has the table of parked events locked: status() does not say that it waits for its
# destination, which is well; and does where that is down.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 1\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('s'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $parked = 'SELECT count(*) FROM outbox_internal.parked';
sub delayed { my $id = sql(q(SELECT outbox.emit_text('a', 'k', 'e', 'x', deliver_at => clock_timestamp() + interval '15 s'))); wait_for_value($node, $parked, '1', 60) or die; return $id }
sql(q(SELECT outbox.emit_text('a', 'k', 'e', 'x')));
ok(wait_idle($node), 'delivered');

my $id = delayed();
my $session = $node->background_psql('postgres', on_error_stop => 1);
$session->query_safe('BEGIN; LOCK TABLE outbox_internal.parked IN EXCLUSIVE MODE');
my $status = "SELECT concat_ws(' | ', state, error_class, error_code, reason) FROM outbox.status('$id')";
ok(wait_for_value($node, "SELECT state || ' ' || error_code FROM outbox.status('$id')", 'due LOCKED', 60), 'it is due, and the table is locked');
is(sql(q(SELECT state FROM outbox.destination)), 'closed', 'its destination is well');
is(sql($status), 'due | internal | LOCKED | waits for what error_message says', 'and it does not wait for that');
$session->query_safe('COMMIT');
$session->quit;
ok(wait_for_value($node, $parked, '0', 60), 'it goes');

$id = delayed();
$redis->stop;
$status = "SELECT concat_ws(' | ', state, error_class, reason) FROM outbox.status('$id')";
ok(wait_for_value($node, $status, 'due | destination | waits for destination "r"', 60), 'one that is due while the destination is down waits for that');
$redis->run('start', $redis->{dir}, $redis->{port});
ok(wait_for_value($node, $parked, '0', 60), 'it goes, too');
no_server_crashed($node);
$node->stop;
done_testing();
