# A prepared transaction that emitted: nothing of it is published before it commits, it survives a restart, it delays
# nobody, and nothing of a prepared transaction that is rolled back ever arrives.
# matrix: B5
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('prepared'));

sub emit { return "SELECT outbox.emit_text('order', 'k', 'said', '$_[0]');" }
sub arrived { return join ',', map { $_->{payload} } @{ $redis->entries('prepared') } }

$node->safe_psql('postgres', 'BEGIN;' . emit('kept') . emit('kept too') . "PREPARE TRANSACTION 'kept'");
$node->safe_psql('postgres', 'BEGIN;' . emit('dropped') . "PREPARE TRANSACTION 'dropped'");
$node->safe_psql('postgres', emit('other'));
ok(wait_idle($node), 'a prepared transaction is not waited for');
is(arrived(), 'other', 'and delays no other event');

$node->restart;
$node->safe_psql('postgres', emit('after restart'));
ok(wait_idle($node), 'idle after a restart');
is(arrived(), 'other,after restart', 'nothing of a prepared transaction after a restart');

$node->safe_psql('postgres', "COMMIT PREPARED 'kept'");
$node->safe_psql('postgres', "ROLLBACK PREPARED 'dropped'");
ok(wait_idle($node), 'idle after both have ended');
is(arrived(), 'other,after restart,kept,kept too', 'the committed one arrives in emit order, the other never');

# Without any wait function or other commit: the worker's own poll finds it.
$node->safe_psql('postgres', 'BEGIN;' . emit('polled') . "PREPARE TRANSACTION 'polled'");
$node->safe_psql('postgres', "COMMIT PREPARED 'polled'");
my $deadline = time + 20;
select undef, undef, undef, 0.05 until arrived() =~ /polled$/ || time > $deadline;
like(arrived(), qr/polled$/, 'COMMIT PREPARED needs no other commit to be noticed');

# The workers are told of a change of routes at commit, which COMMIT PREPARED does not tell of. What was taken back needs no word.
sub prepares
{
	my ($sql, $name) = @_;
	my (undef, undef, $error) = $node->psql('postgres', "BEGIN; $sql; PREPARE TRANSACTION 'change'");
	return $error =~ /cannot prepare/ ? 'refused' : $node->psql('postgres', "ROLLBACK PREPARED 'change'") == 0 ? 'prepared' : $error;
}
my $pause = q{SELECT outbox.pause('redis', reason => 'test')};
is(prepares($pause), 'refused', 'a change of routes is not prepared');
is(prepares("SAVEPOINT a; $pause; RELEASE a"), 'refused', 'nor in a savepoint that stands');
is(prepares("SAVEPOINT a; SAVEPOINT b; $pause; RELEASE b; ROLLBACK TO a"), 'prepared', 'one that a savepoint has taken back is none');
is(prepares("SAVEPOINT a; $pause; SAVEPOINT b; SELECT outbox.resume('redis'); ROLLBACK TO b"), 'refused', 'what was changed before the savepoint stands');
is(prepares("$pause; SAVEPOINT a; SELECT outbox.resume('redis'); ROLLBACK TO a"), 'refused', 'and outside of it');
no_server_crashed($node);
done_testing();
