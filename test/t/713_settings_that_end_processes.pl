# Settings of a database that would end outbox's processes at their first error, or refuse them their own views: a table that is
# locked for a while ends no process, and nothing is sent twice.
# matrix: S4
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(conf => "outbox.workers = 1\n");
redis_route($node, $redis, 'r');
my @settings = ('exit_on_error = on');
# Minor releases of August 2024 brought it.
push @settings, q{restrict_nonsystem_relation_kind = 'view'} if ($node->psql('postgres', 'SHOW restrict_nonsystem_relation_kind'))[0] == 0;
$node->safe_psql('postgres', "ALTER DATABASE postgres SET $_") foreach @settings;
$node->restart;

my $processes = q{SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE datname = current_database() AND backend_type ~ '^outbox (keeper|relay)'};
ok(wait_until(sub { $node->safe_psql('postgres', $processes) =~ /^\d+ \d+$/ }, 60), 'keeper and relay worker run') or diag($node->safe_psql('postgres', $processes));
$node->safe_psql('postgres', q{SELECT outbox.emit('t', 1, 'first', '{}')});
ok(wait_idle($node), 'and publish');
my $pids = $node->safe_psql('postgres', $processes);

my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE outbox_internal.progress IN ACCESS EXCLUSIVE MODE');
$node->safe_psql('postgres', q{SELECT count(outbox.emit('t', (n % 10)::text, 'e', '{}')) FROM generate_series(1, 100) n});
ok(wait_until(sub { @{ $redis->column('outbox.event.t', 'type') } >= 101 }, 60), 'while the positions are locked events are sent');
sleep 2;  # the position is saved in vain several times a second, and nothing is to end for it
is($node->safe_psql('postgres', $processes), $pids, 'and no process ends');
$holder->query_safe('COMMIT');
$holder->quit;
ok(wait_idle($node), 'then all is done');
is(scalar @{ $redis->column('outbox.event.t', 'type') }, 101, 'and nothing was sent twice');
no_server_crashed($node);
done_testing();
