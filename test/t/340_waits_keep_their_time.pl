# Somebody has a table of outbox locked, any of them: wait_for() and wait_until_idle() come back when their time is over.
# matrix: M1
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis');
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

my $id = sql(q{SELECT outbox.emit('order', '1', 'created', '{}')});
ok(wait_idle($node), 'idle');
my $holder = $node->background_psql('postgres', on_error_stop => 1);
my @tables = split /\n/, sql(q{SELECT oid::regclass FROM pg_class WHERE relnamespace IN ('outbox'::regnamespace, 'outbox_internal'::regnamespace)
	AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1});
cmp_ok(scalar @tables, '>', 20, 'there are tables');
foreach my $table (@tables)
{
	$holder->query_safe("BEGIN; LOCK TABLE $table IN ACCESS EXCLUSIVE MODE");
	foreach my $wait ("wait_for('$id', '100 ms')", "wait_until_idle('100 ms')")
	{
		# What waits for the lock is ended: it does not go before that.
		my (undef, undef, $error) = $node->psql('postgres', "SET client_min_messages = error; SET lock_timeout = '10 s'; SELECT outbox.$wait");
		is($error, '', "$table is locked: $wait does not wait for it");
	}
	$holder->query_safe('ROLLBACK');
}
is(sql("SELECT outbox.wait_for('$id')"), 't', 'and what was delivered is');
$holder->quit;
$node->stop;
no_server_crashed($node);
done_testing();
