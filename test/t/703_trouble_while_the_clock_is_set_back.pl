# The server's clock is set back by an hour just after a lane has met a lock: the WARNING does not wait until that hour is over.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node(conf => "outbox.lone_emit = allow\n");
$node->safe_psql('postgres', q(CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', server => 'nowhere')));
$node->safe_psql('postgres', q(SELECT outbox.emit('order', 'k', 'one', '{}')));
ok(wait_idle($node), 'delivered');

my $holder = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$holder->query_safe('BEGIN; LOCK TABLE outbox_internal.parked IN SHARE MODE');
$node->safe_psql('postgres', q(SELECT outbox.emit('order', 'k', 'later', '{}', deliver_at => now() + interval '1 day')));
sleep 0.4;    # it has met the lock, and not for a second yet; on a machine that is busier than that nothing is shown
Outbox::Faults::shift_clock(-3600 * 1_000_000);
ok(wait_until(sub { slurp_file($node->logfile) =~ /event=lane_trouble route=all lane=0 error_code="LOCKED"/ }, 20), 'the lock is told');
$holder->query_safe('COMMIT');
$holder->quit;

no_server_crashed($node);
done_testing();
