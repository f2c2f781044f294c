# A DROP EXTENSION that is prepared, held, and committed later: while it is held the workers wait for its locks, and when it has
# committed, of which nothing tells them, they leave, and none says that a table is missing.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 2\n");
my $redis = Outbox::Redis->start;
my $leave = "SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('outbox keeper', 'outbox relay')";

# A few times: which of a worker's parts meets it first is chance.
foreach my $round (1 .. 3)
{
	redis_route($node, $redis, 'redis', topic => q('all'), lanes => 4);
	$node->safe_psql('postgres', q(SELECT outbox.emit('order', '1', 'order.created', '{}')));
	ok(wait_idle($node), 'workers are at work');
	my $from = -s $node->logfile;
	$node->safe_psql('postgres', "BEGIN; DROP EXTENSION outbox CASCADE; PREPARE TRANSACTION 'dropped'");
	ok(wait_until(sub { slurp_file($node->logfile, $from) =~ /lock timeout/ }, 20), 'they wait for it');
	my $committed = -s $node->logfile;
	$node->safe_psql('postgres', "COMMIT PREPARED 'dropped'");
	ok(wait_for_value($node, $leave, '0', 20), 'they leave when it has committed');
	unlike(slurp_file($node->logfile, $committed), qr/does not exist|is missing|42P01|3F000/, 'and none says that something is missing');
	$node->safe_psql('postgres', 'CREATE EXTENSION outbox');
}
no_server_crashed($node);
done_testing();
