# Delayed events of many topics that have not gone because their destination is away are one row of doctor(), as other trouble of many
# topics is: however many topics, the page can be read.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql("CREATE SERVER r FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}'); SELECT outbox.create_route('r', server => 'r')");
sql(q{SELECT outbox.emit('z', 'first', 'x', '{}')});
ok(wait_idle($node), 'the destination is there');
# Due long after the lane has read them, and not gone: the destination is away by then.
sql(q{SELECT count(outbox.emit('z', n::text, 'x', '{}', topic => 'lim.q' || n, deliver_at => now() + '30 s')) FROM generate_series(1, 300) n});
ok(wait_for_value($node, q{SELECT count(*) FROM outbox.parked_event WHERE state = 'scheduled'}, '300', 25), 'all are scheduled');
$redis->stop;
my $rows = q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'overdue');
my $of_all = q(SELECT detail || ' ' || hint FROM outbox.doctor() WHERE "check" = 'overdue');
my $said = '';
ok(wait_until(sub { $said = sql($of_all); return $said =~ /300 parked events are due/ }, 120), 'all are overdue');
cmp_ok(sql($rows), '<=', 2, 'in one row, or two while some have met the trouble and others not');
like($said, qr/300 topics \("lim\.q1", "lim\.q10", "lim\.q100", \.\.\.\) of route "r".*outbox\.parked_event names all of the topics/s, 'that names some of the topics') or diag($said);
cmp_ok(length($said), '<', 2000, 'and can be read');
is(sql(q{SELECT count(DISTINCT topic) FROM outbox.parked_event WHERE route = 'r'}), '300', 'the others are where it says');
no_server_crashed($node);
$node->stop;
done_testing();
