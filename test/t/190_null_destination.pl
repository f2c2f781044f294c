# Events to outbox_null are delivered like those of any other destination, and counted, and discarded.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

sql(q{CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null});
sql(q{SELECT outbox.create_route('nowhere', server => 'nowhere', lanes => 2)});
sql(q{SELECT count(outbox.emit('order', i % 50, 'created', jsonb_build_object('n', i))) FROM generate_series(1, 5000) i});
ok(wait_idle($node), 'every event is delivered');
is(sql(q{SELECT sum(pending) FROM outbox.lag WHERE route = 'nowhere'}), '0', 'outbox.lag has none that waits');
is(sql(q{SELECT wrapper || ' ' || state FROM outbox.destination WHERE server = 'nowhere'}), 'outbox_null closed', 'outbox.destination shows it, in use');
my $id = sql(q{SELECT outbox.emit('order', 1, 'created', '{"n": 5001}')});
is(sql(qq{SELECT outbox.wait_for('$id', timeout => '60 seconds')}), 't', 'wait_for() sees one delivered');
is(sql(qq{SELECT string_agg(DISTINCT state, ',') FROM outbox.status('$id')}), 'delivered', 'and so does status()');
is(scalar(sink_pids($node)) > 0, 1, 'in a process of its own');

# It takes any topic; a latency is kept.
sql(q{SELECT outbox.alter_route('nowhere', topic => 'a b/{aggregate_id}')});
sql(q{ALTER SERVER nowhere OPTIONS (ADD latency '500')});
ok(wait_idle($node), 'the change is taken');
$id = sql(q{SELECT outbox.emit('order', 2, 'created', '{}')});
ok(wait_idle($node), 'delivered with a latency and another topic');
is(sql(q{SELECT count(*) FROM outbox_internal.parked}), '0', 'none was refused');

foreach my $bad ([ q{CREATE SERVER bad FOREIGN DATA WRAPPER outbox_null OPTIONS (host 'x')}, qr/unknown option "host" for outbox_null/ ],
	[ q{ALTER SERVER nowhere OPTIONS (SET latency '60001')}, qr/invalid value for option "latency": "60001"/ ],
	[ q{SELECT outbox.alter_route('nowhere', options => '{"mode": "list"}')}, qr/unknown route option "mode"/ ])
{
	my ($status, $out, $err) = $node->psql('postgres', $bad->[0]);
	isnt($status, 0, "refused: $bad->[0]");
	like($err, $bad->[1], 'with a reason');
}
no_server_crashed($node);
done_testing();
