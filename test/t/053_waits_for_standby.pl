# Where synchronous_standby_names asks for a standby, nothing is published that a failover to it would un-happen, not even
# what was committed without waiting for it. A worker that waits is still a good citizen.
# matrix: B4
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "log_min_messages = info\nmax_prepared_transactions = 10\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION outbox');
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub emit { return sql("SET synchronous_commit = $_[1]; SELECT outbox.emit('t', 1, '$_[0]', '{}')") }
sub types { return join ',', @{ $redis->column('outbox.event.t', 'type') } }

redis_route($node, $redis, 'r');
emit('without standbys', 'on');
ok(wait_idle($node), 'without the setting no standby is waited for');

$node->append_conf('postgresql.conf', "synchronous_standby_names = 'standby'\n");
$node->restart;
# The checkpointer tells everybody before it first waits.
wait_for_value($node, "SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'checkpointer'", 'CheckpointerMain') or die;

emit('local', 'local');
emit('off', 'off');
ok(wait_for_value($node, 'SELECT inflight FROM outbox.lag', 2), 'two events, committed without waiting, are read');
is(types(), 'without standbys', 'and not published while the standby does not have them');
{
	local $ENV{PGOPTIONS} = '-c synchronous_commit=local';
	sql('CREATE DATABASE other');
	sql('DROP DATABASE other');
}
pass('other databases come and go meanwhile');
is(types(), 'without standbys', 'still not published');
ok(wait_for_value($node, 'SELECT error_code, error_class FROM outbox.lag', 'NO_STANDBY|config', 30), 'outbox.lag says what it waits for');
like(sql(q{SELECT status || ': ' || detail || ' ' || hint FROM outbox.doctor() WHERE "check" = 'lane'}), qr/^problem: .*NO_STANDBY: .*synchronous_standby_names.* pg_stat_replication/, 'and doctor(), with what to do');
is(sql('SELECT outbox.doctor_ok()'), 'f', 'which is not well');
ok(wait_until(sub { slurp_file($node->logfile) =~ /WARNING:  outbox: route "r" is in trouble: .*synchronous_standby_names.*\n.*are sent when the standbys have them\.\n.*HINT: .*pg_stat_replication/ }, 60), 'the log, too');

$standby->start;
ok(wait_idle($node), 'the standby comes, and the events go');
is(types(), 'without standbys,local,off', 'in order');
ok(wait_for_value($node, q{SELECT error_code IS NULL FROM outbox.lag}, 't', 10), 'and nothing is said any more');
ok(wait_until(sub { slurp_file($node->logfile) =~ /LOG:  outbox: route "r" works again/ }, 60), 'but that it works again');
emit('on', 'on');
ok(wait_idle($node), 'with the standby there all is as ever');

sql(q{SELECT outbox.emit('t', 1, 'edited', '{"v": 1}', deliver_at => now() + interval '1 hour')});
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'scheduled'}, 1), 'an event is parked');
$node->wait_for_catchup($standby);
$standby->stop;
sql(q{SET synchronous_commit = local; SELECT outbox.retry(id, reason => 'wrong', payload => '{"v": 2}') FROM outbox_internal.parked});
ok(wait_for_value($node, q{SELECT error_code FROM outbox.lag}, 'NO_STANDBY', 30), 'one that is edited without a standby waits for it');
is(types(), 'without standbys,local,off,on', 'and is not sent');
is(sql(q{SELECT status FROM outbox.doctor() WHERE "check" = 'lane'}), 'problem', 'which doctor() says, too');
my (undef, undef, $refused) = $node->psql('postgres', q{SET synchronous_commit = local; SELECT outbox.skip(id, reason => 'wrong') FROM outbox_internal.parked});
like($refused, qr/is being sent just now.*DETAIL: .*NO_STANDBY.*HINT: .*Pause the route/s, 'and who would skip() it reads what it waits for');
$standby->start;
ok(wait_until(sub { types() eq 'without standbys,local,off,on,edited' }, 60), 'the standby comes, and it goes');
ok(wait_for_value($node, q{SELECT error_code IS NULL FROM outbox.lag}, 't', 10), 'and nothing is said any more');

$standby->stop;
emit('alone', 'local');
ok(wait_for_value($node, 'SELECT inflight FROM outbox.lag', 1), 'the standby goes: an event waits');
ok(wait_for_value($node, 'SELECT error_code FROM outbox.lag', 'NO_STANDBY', 30), 'which is said');
sql(q{SET synchronous_commit = local; SELECT outbox.pause('r', reason => 'the standby is being mended')});
ok(wait_for_value($node, q{SELECT state, error_code FROM outbox.lag}, 'paused|PAUSED', 30), 'one that is paused awaits nothing');
like(sql(q{SELECT string_agg(status || ': ' || detail, '; ') FROM outbox.doctor() WHERE "check" = 'lane'}), qr/^ok: 1 lane is paused/, 'and doctor() says no other thing');
sql(q{SET synchronous_commit = local; SELECT outbox.resume('r')});
ok(wait_for_value($node, 'SELECT error_code FROM outbox.lag', 'NO_STANDBY', 30), 'after which it does again');
$node->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");
$node->reload;
ok(wait_idle($node), 'until the standby is not asked for any more');
is(types(), 'without standbys,local,off,on,edited,alone', 'each event once');

no_server_crashed($node);
done_testing();
