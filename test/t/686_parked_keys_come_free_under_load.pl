# What waits beside the log is let go while far more of the same key is read: the lane does not put all of that behind it, a thousand
# events at once where a claim sends 256, but leaves it in the log until the key is free.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\noutbox.lone_emit = allow\n");
sub sql { return $node->safe_psql('postgres', @_) }

# A claim takes more than a second, as on a slow disk or behind a slow broker.
sql(q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null OPTIONS (latency '1200'); SELECT outbox.create_route('all', 'n')));
my $key = q(route => 'all', aggregate_type => 'k', aggregate_id => '1');
sql("SELECT outbox.pause($key, reason => 'test')");
sql(q(SELECT count(outbox.emit('k', 1, 'e', '{}'::jsonb)) FROM generate_series(1, 60) i));
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '60', 180), 'a few events are parked behind a pause of their key');

# The worker has taken some of them, and the key has many more in the log.
Outbox::Faults::arm('parked.claim.after', 'wait');
sql("SELECT outbox.resume($key)");
ok(wait_until(sub { Outbox::Faults::waiting('parked.claim.after') }, 180), 'they are let go');
sql(q(SELECT count(outbox.emit('k', 1, 'e', '{}'::jsonb)) FROM generate_series(1, 9000) i));
Outbox::Faults::release('parked.claim.after');

ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 300), 'the key comes free');
ok(wait_idle($node), 'all is delivered');
is(sql(q(SELECT sum(value) FROM outbox.metrics() WHERE name = 'outbox_events_published_total')), '9060', 'each once');
my $parked = sql('SELECT count(*) FROM outbox_internal.outcome');
# 60 and 2,000 that came behind them; a machine that stalls for seconds makes it a thousand more.
cmp_ok($parked, '<', 5000, 'and most of it went with the lane') and note("$parked were parked");

no_server_crashed($node);
$node->stop;
done_testing();
