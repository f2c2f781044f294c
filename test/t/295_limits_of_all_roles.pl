# Limits that somebody sets for all roles are neither those of CREATE EXTENSION nor of the workers: hundreds of parked events are sent
# with 64 kB of memory for a sort and no temporary file, beside new ones.
# matrix: B9
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start(conf => ['appendfsync no']);
sub sql { return $node->safe_psql('postgres', $_[0]) }

sql("ALTER ROLE ALL SET temp_file_limit = 0");
sql("ALTER ROLE ALL SET work_mem = '64kB'");
is(sql('SHOW temp_file_limit') . sql('SHOW work_mem'), '064kB', 'a session has the limits');
like($node->psql('postgres', 'SELECT count(*) FROM (SELECT * FROM generate_series(1, 100000) ORDER BY random()) s'), qr/^3$/, 'and meets them');
is(($node->psql('postgres', 'CREATE EXTENSION outbox'))[0], 0, 'the extension is made under them');
redis_route($node, $redis, 'r', topic => q('s'));
$ENV{PGOPTIONS} = '-c temp_file_limit=-1 -c work_mem=4MB';    # of this test's own sessions
my $pid;
ok(wait_until(sub { $pid = sql(q(SELECT pid FROM outbox.worker WHERE kind = 'relay' AND state = 'running')) }, 60), 'a worker runs');
sql("SELECT pg_terminate_backend($pid, 10000)");
ok(wait_until(sub { sql(qq(SELECT count(*) FROM outbox.worker WHERE kind = 'relay' AND state = 'running' AND pid <> $pid)) eq '1' }, 30), 'a worker began under them');
sql(q{SELECT count(outbox.emit_text('t', 'k' || n % 100, 'e', repeat('x', 2000) || n)) FROM generate_series(1, 2000) n});
ok(wait_idle($node), 'delivered');
is($redis->xlen('s'), 2000, 'all of them');
sql(q{CALL outbox.replay(since => '-infinity', route => 'r', per_second => 100000, reason => 'again', dry_run => false)});
sql(q{SELECT outbox.emit_text('t', 'new', 'e', 'new')});
ok(wait_until(sub { $redis->xlen('s') >= 4001 }, 30), 'all of them, and the new one') or diag(sql('SELECT error_message FROM outbox.lag'));
no_server_crashed($node);
done_testing();
