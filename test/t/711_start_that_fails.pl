# Processes that fail at every start, without a crash, are seen. Databases whose tablespace is away have a keeper in outbox.process that is held back,
# though nobody knows whether they use outbox, and the log has a line for each; no other database waits for its turn behind them. Of a relay
# worker doctor() says it, too. A reload tries at once, and the log says when it is over.
# matrix: A2
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
mkdir "$dir/ts" or die $!;
my $node = new_node(conf => "outbox.workers = 1\nmax_worker_processes = 20\n");
sub sql { my ($query, $database) = @_; return $node->safe_psql($database // 'postgres', $query) }
sub states { my ($database) = @_; return "SELECT string_agg(process || ' ' || state, ', ' ORDER BY process) FROM outbox.process WHERE database = '$database'" }
sub lines { my ($what) = @_; return scalar(() = slurp_file($node->logfile) =~ /$what/g) }

sql("CREATE TABLESPACE away LOCATION '$dir/ts'");
sql("CREATE DATABASE away_$_ TABLESPACE away") foreach 1 .. 3;
sql('CREATE DATABASE behind');
sql(q(CREATE EXTENSION outbox; CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', server => 'nowhere')), $_) foreach qw(away_1 behind);
ok(wait_for_value($node, states($_), 'keeper running, relay running'), "$_ is served") foreach qw(away_1 behind);

$node->stop;
rename "$dir/ts", "$dir/gone" or die $!;
$node->start;
ok(wait_for_value($node, states('behind'), 'keeper running, relay running', 30), 'a database behind three that cannot be connected to is served');
# Later tries are further apart: then the one that the reload makes is none of these.
ok(wait_until(sub { lines('FATAL:  database "away_1" does not exist') >= 6 }, 40), 'the keepers of these are tried');
ok(wait_for_value($node, q(SELECT string_agg(database || ' ' || state, ', ' ORDER BY database) FROM outbox.process WHERE database LIKE 'away%'
	AND process = 'keeper' AND wanted = 1 AND running = 0 AND detail LIKE 'It failed at each of its last starts; not before %'),
	'away_1 held back, away_2 held back, away_3 held back', 30), 'outbox.process says that they are held back') or diag(sql('SELECT * FROM outbox.process'));
ok(wait_for_value($node, q(SELECT wanted - running FROM outbox.process WHERE process = 'all'), 3), 'and that these are missing');
is(lines(qq(WARNING:  outbox: the keeper of database "away_$_" fails at each start)), 1, "the log has it of away_$_, once") foreach 1 .. 3;
rename "$dir/gone", "$dir/ts" or die $!;
$node->reload;
ok(wait_for_value($node, states('away_1'), 'keeper running, relay running', 6), 'a reload tries at once');
ok(wait_until(sub { lines('LOG:  outbox: the keeper of database "away_[23]" is not held back any more, after') == 2 }, 10), 'the log says that it is over');

Outbox::Faults::arm('relay.start', 'fail *');
sql(q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'outbox relay' AND datname = 'behind'));
my $found;
ok(wait_until(sub {
	$found = sql(q(SELECT string_agg(format('%s: %s %s', "check", detail, hint), E'\n') FROM outbox.doctor() WHERE "check" IN ('keeper', 'starts', 'workers')), 'behind');
	return $found =~ /^starts: A relay worker of this database failed just after each of its last starts; it is not started again before /m;
}, 30), 'doctor() says of a relay worker that it fails') or diag($found);
like($found, qr/^workers: .*see the check "starts"/m, 'and that this comes first');
like($found, qr/^keeper: The keeper of this database runs/m, 'the keeper does not');
ok(wait_for_value($node, states('behind'), 'keeper running, relay held back', 30), 'as outbox.process does');
Outbox::Faults::disarm('relay.start');
$node->reload;
ok(wait_for_value($node, states('behind'), 'keeper running, relay running', 6), 'a reload tries that at once, too');
no_server_crashed($node);
done_testing();
