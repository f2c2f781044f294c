# A delayed event falls due while somebody has the table of parked events locked: status() does not say that it waits for its
# destination, which is well; and does where that is down. While that of positions is locked, what is delivered all the same does
# not wait in outbox.lag, and doctor() does not say that emit() waits.
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

# --- positions ---
$session = $node->background_psql('postgres', on_error_stop => 1);
$session->query_safe('BEGIN; LOCK TABLE outbox_internal.progress IN EXCLUSIVE MODE');
my $before = $redis->xlen('s');
sql(q(SELECT outbox.emit_text('a', 'k', 'e', 'x')));
ok(wait_until(sub { $redis->xlen('s') == $before + 1 }, 60), 'delivered while positions cannot be saved');
ok(wait_for_value($node, q(SELECT error_code FROM outbox.lag), 'LOCKED', 60), 'which outbox.lag says');
ok(wait_for_value($node, q(SELECT pending || ' ' || (delay IS NULL) FROM outbox.lag), '0 true', 30), 'and that nothing waits');
my $held = q(SELECT detail FROM outbox.doctor() WHERE "check" = 'held' AND detail ~ 'progress');
ok(wait_until(sub { sql($held) ne '' }, 60), 'doctor() says who holds it');
like(sql($held), qr/emit\(\) does not wait/, 'and that emit() does not wait');
$session->query_safe('COMMIT');
$session->quit;
ok(wait_for_value($node, q(SELECT count(error_code) || ' ' || sum(pending) FROM outbox.lag), '0 0', 60), 'saved');

$id = delayed();
$redis->stop;
$status = "SELECT concat_ws(' | ', state, error_class, reason) FROM outbox.status('$id')";
ok(wait_for_value($node, $status, 'due | destination | waits for destination "r"', 60), 'one that is due while the destination is down waits for that');
$redis->run('start', $redis->{dir}, $redis->{port});
ok(wait_for_value($node, $parked, '0', 60), 'it goes, too');
no_server_crashed($node);
$node->stop;
done_testing();
