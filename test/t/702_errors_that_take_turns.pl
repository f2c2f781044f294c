# Two chores of a relay worker that fail for different reasons: each error is in the server's log once a minute, however they take turns.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub lines { my ($chore, $what) = @_; return scalar(() = slurp_file($node->logfile) =~ /LOG:.*outbox relay, $chore: .*$what/g) }
sub said { my ($chore, $what) = @_; return wait_until(sub { lines($chore, $what) > 0 }, 30) }

sql(q(CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', server => 'nowhere')));
ok(wait_for_value($node, 'SELECT count(*) FROM outbox.lag WHERE state = $$idle$$', 1), 'a worker has the lane');
sql(q(CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no lane today' USING ERRCODE = 'object_in_use'; END $$;
CREATE TRIGGER refuse AFTER INSERT OR UPDATE ON outbox_internal.lane FOR EACH ROW EXECUTE FUNCTION refuse()));
sql(q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'outbox relay'));
ok(said('sharing of lanes', '(no lane today|its SQLSTATE)'), 'the next worker says what is in its way');

my $locker = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$locker->query_safe('BEGIN; LOCK TABLE outbox.pause IN ACCESS EXCLUSIVE MODE');
sql('CREATE ROLE somebody');
ok(said('configuration', 'lock timeout'), 'and what comes on top of that');
sleep 6;    # in which they take turns, and nothing is to be said
my $lines = lines('[a-z ]+', '');
cmp_ok($lines, '<=', 4, "$lines lines of the worker");
$locker->query_safe('ROLLBACK');
$locker->quit;

no_server_crashed($node);
done_testing();
