# outbox.doctor() in a database where consumers receive, and nothing is emitted or routed: that there is no route, and no day table, is as it should be,
# whatever they receive by; where an event was emitted, or a route made, it is told of as ever.
# matrix: R95
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => "outbox.workers = 1\n");
my $database;
sub sql { return $node->safe_psql($database, @_) }
sub ill { return sql(q{SELECT coalesce(string_agg(DISTINCT "check" || ' ' || status, ', ' ORDER BY "check" || ' ' || status), '') FROM outbox.doctor() WHERE "check" IN ('preload', 'route', 'day tables', 'log') AND status <> 'ok'}) }
sub said { return sql(qq{SELECT string_agg(concat_ws(' / ', status, detail, hint), E'\n') FROM outbox.doctor() WHERE "check" = '$_[0]'}) }

my %receive = (
	marks => q{SELECT outbox.receive('c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')},
	keys => q{SELECT outbox.receive('c', 'topic', 'k', 1700000000000000)},
	streams => q{SELECT outbox.receive_next('c', 's', 1)});
foreach my $by (sort keys %receive)
{
	$database = $by;
	$node->safe_psql('postgres', "CREATE DATABASE $by");
	sql('SET client_min_messages = error; CREATE EXTENSION outbox');
	is(ill(), 'day tables warning, route warning', "$by: an extension that is not used yet");
	sql($receive{$by});
	is(ill(), '', 'once somebody receives nothing is wrong');
	is(said('day tables'), 'ok / There is no day table, and need not be: consumers receive here, and the log has no events.', 'day tables need not be');
	like(said('route'), qr{^ok / There is no route, and need not be: consumers receive here, and the log has no events\. / .*create_route}, 'nor a route, and how to have one');
}

# Preloaded or not.
$node->append_conf('postgresql.conf', q(shared_preload_libraries = ''));
$node->restart;
foreach my $by (sort keys %receive)
{
	$database = $by;
	is(ill(), '', "$by: nor where outbox is not preloaded");
}
$node->append_conf('postgresql.conf', q(shared_preload_libraries = 'outbox'));
$node->restart;

# Somebody emits.
$database = 'marks';
sql(q{SET outbox.lone_emit = allow; SELECT outbox.emit('t', 'k', 't', '1')});
like(said('route'), qr/^warning .*There is no route: events are kept/, 'an event that goes nowhere');
ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox keeper'), 1), 'its keeper runs');
# It was, and is no more.
sql(q{SET client_min_messages = error; SET outbox.allow_loss = on; DELETE FROM outbox_internal.log});
like(said('route'), qr/^ok /, 'nothing of it is left');
sql(q{SELECT outbox.forget_consumer('c')});
sql(q{SET client_min_messages = error; SET outbox.allow_loss = on; DELETE FROM outbox_internal.inbox_kept});
like(said('route'), qr/^warning /, 'and nobody receives any more');

# A route without lanes is no database of consumers.
$database = 'keys';
sql(q{CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SET client_min_messages = error; SELECT outbox.create_route('r', 'n')});
unlike(said('route'), qr/need not be/, 'a route is told of as ever');
unlike(said('day tables'), qr/need not be/, 'and so are its day tables');
done_testing();
