# After a start workers may be earlier than the checkpointer, which tells all processes whether synchronous_standby_names asks for
# standbys: until it has, the setting tells, as it does to those who commit.
# matrix: B4
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Cluster;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "log_min_messages = info\n");
$node->start;
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');
plan skip_all => 'this server does not tell whether it has looked'
  if $version < 150013 || $version >= 160000 && $version < 160009 || $version >= 170000 && $version < 170005;
$node->safe_psql('postgres', 'CREATE EXTENSION outbox');
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub types { return join ',', @{ $redis->column('outbox.event.t', 'type') } }
sub emit { return sql("SET synchronous_commit = local; SELECT outbox.emit('t', 1, '$_[0]', '{}')") }
redis_route($node, $redis, 'r');

# Not looked yet, as long as this stands: both bits are taken for unset.
Outbox::Faults::put('durable.unset', '3');
emit('one');
ok(wait_idle($node), 'where the setting asks for none, none is waited for');
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'standby'\n");
$node->restart;
emit('two');
ok(wait_until(sub { types() ne 'one' || sql('SELECT error_code FROM outbox.lag') eq 'NO_STANDBY' }, 60), 'an event is read after the start');
is(types(), 'one', 'and not published while the standby does not have it');
# It has looked.
Outbox::Faults::disarm('durable.unset');
emit('three');
ok(wait_for_value($node, 'SELECT pending FROM outbox.lag', 2), 'nor another one');
is(types(), 'one', 'when it has looked');
$node->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");
$node->reload;
ok(wait_idle($node, 60), 'asked for no more, they go');
is(types(), 'one,two,three', 'in order');
$node->stop;
done_testing();
