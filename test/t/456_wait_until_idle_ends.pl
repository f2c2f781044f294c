# wait_until_idle() says false when its time is over, with many routes, too, whose logs take longer to count through than it has.
# matrix: M9
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { return $node->safe_psql('postgres', @_) }
sql('CREATE SERVER n FOREIGN DATA WRAPPER outbox_null');
sql(q(BEGIN; SELECT outbox.create_route('r' || i, 'n', ARRAY['t' || i]), outbox.pause(route => 'r' || i, reason => 'test') FROM generate_series(1, 60) i; COMMIT));
sql(q(BEGIN; SELECT count(outbox.emit('t' || i, 'k', 'e', '{}'::jsonb)) FROM generate_series(1, 60) i; COMMIT));
# To count one route takes a second and a half.
my $slow = 'wait_until_idle.count';
Outbox::Faults::arm($slow, 'sleep * 1500');
my ($code, $out, $told) = $node->psql('postgres', q(SELECT outbox.wait_until_idle('4 s')));
my $counted = Outbox::Faults::hits($slow);
Outbox::Faults::disarm($slow);
is($out, 'f', 'not idle');
like($told, qr/the outbox is not idle within the timeout/, 'and it says so');
cmp_ok($counted, '>', 0, 'it counts what lanes that do not read have still to deliver');
cmp_ok($counted, '<', 10, "no longer than it may: $counted of 60 routes");

# Where the time is enough all are counted: nothing is left, though no lane reads.
sql(q(SELECT count(*) FROM (SELECT outbox.resume(route => 'r' || i) FROM generate_series(1, 60) i) r));
ok(wait_idle($node), 'all is delivered');
sql(q(SELECT count(*) FROM (SELECT outbox.pause(route => 'r' || i, reason => 'test') FROM generate_series(1, 60) i) p));
is(sql(q(SELECT outbox.wait_until_idle('120 s'))), 't', 'paused lanes with nothing to do are idle');
$node->stop;
done_testing();
