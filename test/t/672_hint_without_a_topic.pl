# matrix: E-6
# doctor() of a Redis that takes no writes names a call of outbox.test_server(), without a topic where the route's is a template: typed as
# it stands, that finds the trouble.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('{aggregate_type}'));

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
my $told = q(SELECT hint FROM outbox.doctor() WHERE "check" = 'destination' AND hint LIKE '%test_server%');
sub typed { my ($arguments) = @_; return sql("SELECT concat_ws('|', error_code, hint) FROM outbox.test_server($arguments, timeout => '60 s') WHERE NOT ok") }

is(typed(q('r')), '', 'all is well');
is($redis->command('EXISTS', 'outbox'), 0, 'and nothing was written');

foreach my $trouble ([ 'OOM', [ 'maxmemory', 1 ], 'maxmemory' ], [ 'NOREPLICAS', [ 'min-replicas-to-write', 1 ], 'min-replicas' ]) {
	my ($code, $set, $cure) = @$trouble;
	$redis->command('CONFIG', 'SET', @$set);
	sql(q{SELECT outbox.emit_text('a', 'k', 'x', 'k 1')});
	my $hint = '';
	ok(wait_until(sub { $hint = sql($told); return $hint =~ /SELECT \* FROM outbox\.test_server\(/ }, 60), "$code: doctor() names a call");
	my ($arguments) = $hint =~ /outbox\.test_server\((.*?)\)/;
	like(typed($arguments // q('r')), qr/^\Q$code\E\|.*\Q$cure\E/, 'which says what can be done');
	$redis->command('CONFIG', 'SET', $set->[0], 0);
	ok(wait_idle($node, 60), 'and it goes on');
}
is(typed(q('r')), '', 'all is well again');

# What the user may do with a key is a topic's matter.
$redis->command('ACL', 'SETUSER', 'default', '-xadd');
is(typed(q('r')), '', 'without a topic no right to write is missed');
$redis->command('ACL', 'SETUSER', 'default', '+xadd');
is($redis->command('EXISTS', 'outbox'), 0, 'nothing was written');

no_server_crashed($node);
done_testing();
