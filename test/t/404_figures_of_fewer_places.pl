# A restart with fewer places for figures than before: what there is place for is kept, of databases that there are first.
# matrix: M1
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => "max_worker_processes = 24\noutbox.max_databases = 8\noutbox.max_series = 8\noutbox.max_destinations = 8\n");
my @names = qw(m1 m2 m3 m4);
foreach my $name (@names)
{
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, q{CREATE EXTENSION outbox; CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'n');
		SELECT count(outbox.emit('a', i, 'e', '{}')) FROM generate_series(1, 100) i;});
	is($node->safe_psql($name, q{SELECT outbox.wait_until_idle('120 s')}), 't', "$name: published");
}

sub figures
{
	my ($name) = @_;
	return $node->safe_psql($name, q{SELECT string_agg(name || ' ' || value, ', ' ORDER BY name) FROM (SELECT name, sum(value) AS value FROM outbox.metrics()
		WHERE name IN ('outbox_events_emitted_total', 'outbox_events_published_total', 'outbox_destination_ack_seconds_count') GROUP BY 1) m});
}
my $all = 'outbox_destination_ack_seconds_count 100, outbox_events_emitted_total 100, outbox_events_published_total 100';
is(figures('m4'), $all, 'the figures of the last one');

# One more than there are places for: that which has none begins anew, and keeps those of its route, as all of them do.
$node->append_conf('postgresql.conf', 'outbox.max_databases = 3');
$node->restart;
ok(wait_for_value($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox keeper'}, 3, 120), 'three databases have workers');
$node->append_conf('postgresql.conf', 'outbox.max_databases = 8');
$node->restart;
ok(wait_for_value($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox keeper'}, 4, 120), 'and four again');
like(figures($_), qr/published_total 100/, "$_: the route has all of its figures") foreach @names;

# The three before it are gone: it has all that it had.
$node->safe_psql('m4', 'SELECT outbox.metrics_reset(); SELECT count(outbox.emit(\'a\', i, \'e\', \'{}\')) FROM generate_series(1, 100) i');
is($node->safe_psql('m4', q{SELECT outbox.wait_until_idle('120 s')}), 't', 'it publishes');
is(figures('m4'), $all, 'and counts from zero');
$node->safe_psql('postgres', "DROP DATABASE $_ WITH (FORCE)") foreach qw(m1 m2 m3);
ok(wait_for_value($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox keeper'}, 1, 120), 'one is left');
$node->append_conf('postgresql.conf', "outbox.max_databases = 1\noutbox.max_series = 1\noutbox.max_destinations = 1");
$node->restart;
is(figures('m4'), $all, 'it has all of its figures, with one place');
done_testing();
