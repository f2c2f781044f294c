# While a session holds outbox.replay the keeper cannot look for interrupted replays, and says so once a minute: what it keeps of
# these errors does not become more.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
$node->safe_psql('postgres', q(CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', server => 'nowhere')));
my $keeper = q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'outbox keeper');
ok(wait_for_value($node, "SELECT count(*) FROM ($keeper) k", 1), 'there is a keeper');
my $pid = $node->safe_psql('postgres', $keeper);

# The keeper's memory for errors, in bytes: 0 where it has had none.
sub held
{
	my $from = -s $node->logfile;
	$node->safe_psql('postgres', "SELECT pg_log_backend_memory_contexts($pid)");
	my $said = '';
	wait_until(sub { $said = substr(slurp_file($node->logfile), $from); $said =~ /\[$pid\].*Grand total/ }) or die 'the keeper does not say what it holds';
	return $said =~ /outbox errors: (\d+) total/ ? $1 : 0;
}

my $locker = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$locker->query_safe('BEGIN; LOCK TABLE outbox.replay IN ACCESS EXCLUSIVE MODE');
upkeep($node);
ok(wait_until(sub { slurp_file($node->logfile) =~ /outbox keeper, interrupted replays: canceling statement due to lock timeout/ }), 'the keeper meets the lock');
upkeep($node) foreach 1 .. 12;
is($node->safe_psql('postgres', $keeper), $pid, 'it is the same keeper');
my $held = held();
cmp_ok($held, '<=', 16384, "it keeps $held bytes of errors after many of them");

$locker->query_safe('COMMIT');
$locker->quit;
no_server_crashed($node);
done_testing();
