# A backup of a server that runs takes along what the launcher remembers of its processes, which are running there: a
# server that begins as the copy of a copy, four times in a row, has not crashed four times. Its files may be read by the
# group that may read the cluster.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Cluster;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('first');
$node->init(allows_streaming => 1, extra => ['-g']);
$node->append_conf('postgresql.conf', "log_min_messages = info\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION outbox');
my @marks = glob $node->data_dir . '/pg_stat/outbox_start.*';
cmp_ok(scalar @marks, '>', 0, 'processes that have just been started are remembered');
is(sprintf('%o', (stat $marks[0])[2] & 0777), '640', 'in files for the group of the cluster');
foreach my $copy (1 .. 4)
{
	$node->backup("of_$copy");
	my $next = PostgreSQL::Test::Cluster->new("copy_$copy");
	$next->init_from_backup($node, "of_$copy");
	$node->stop;
	$next->start;
	$node = $next;
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'outbox launcher'}) or last;
}
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/crashed the server/, 'none has crashed');
is($node->safe_psql('postgres', q{SELECT string_agg(detail, ' ') FROM outbox.doctor() WHERE "check" = 'crashes' AND status <> 'ok'}), '', 'says doctor(), too');
# One that has is still remembered.
my $data = $node->data_dir;
sub running { return grep { PostgreSQL::Test::Utils::slurp_file($_) =~ /^0000000000 r / } glob "$data/pg_stat/outbox_start.0.0.0" }    # its launcher has marked itself
ok(wait_until(\&running, 60), 'its own launcher is, as running, with no crash so far');
$node->stop('immediate');
$node->start;
ok(wait_until(\&running, 60), 'which an immediate shutdown is not');
$node->stop;
done_testing();
