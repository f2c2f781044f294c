# Several parts of a relay worker's own work, and a step of the keeper, that cannot be done for the same reason: the server's log tells of each within the minute, which it is,
# and that it works again. Before, the first of a worker's had the line of the minute, and no end was told.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub lines { my ($what) = @_; return scalar(() = slurp_file($node->logfile) =~ /LOG:  outbox $what/g) }
my @whose = ('relay, installation', 'relay, configuration', 'relay, sharing of lanes', 'keeper, installation');

sql(q(CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', server => 'nowhere')));
ok(wait_for_value($node, 'SELECT count(*) FROM outbox.lag WHERE state = $$idle$$', 1), 'a worker has the lane');
my $locker = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$locker->query_safe('BEGIN; LOCK TABLE outbox_internal.identity, outbox.pause, outbox_internal.lane IN ACCESS EXCLUSIVE MODE');
sql('CREATE ROLE somebody');    # may change what the worker's configuration is
ok(wait_until(sub { lines("$_: canceling statement due to lock timeout") > 0 }, 30), "the log tells: $_") foreach @whose;
is(lines('relay: '), 0, 'and nothing without what it is');
is(lines("$_: works again"), 0, "nothing is said to work: $_") foreach @whose;
$locker->query_safe('ROLLBACK');
$locker->quit;
ok(wait_until(sub { lines("$_: works again after [0-9.]+ s") > 0 }, 30), "it works again, says the log: $_") foreach @whose;
is(lines("$_: works again"), 1, "once: $_") foreach @whose;
is(lines("$_: canceling"), 1, "as it told once that it did not: $_") foreach @whose;
no_server_crashed($node);
done_testing();
