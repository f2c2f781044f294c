# Transactions that do not wait for their WAL, and a server that crashes right after their events were published: every
# event that reached the broker is still in the log after recovery.
# matrix: B3
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

# The WAL writer sleeps, so that nothing but the worker flushes what an asynchronous commit left behind.
my $node = new_node(conf => "wal_writer_delay = 10s\nwal_writer_flush_after = 100MB\nautovacuum = off\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('async'));
$node->safe_psql('postgres', "SELECT outbox.emit_text('warm', 'up', 'x', 'x')");
ok(wait_idle($node), 'first event, day table and all');

my $published = 0;
foreach my $round (1 .. 6)
{
	my $before = $redis->xlen('async');
	$node->safe_psql('postgres', "SET synchronous_commit = off;"
		  . "SELECT count(outbox.emit_text('order', (i % 5)::text, 'x', '$round ' || i)) FROM generate_series(1, 50) i");
	my $deadline = time + 10;
	sleep 0.002 until $redis->xlen('async') > $before || time > $deadline;
	$node->stop('immediate');
	$published++ if $redis->xlen('async') > $before;
	$node->start;
	my %log = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', 'SELECT id FROM outbox_internal.log');
	my @phantoms = grep { !$log{ $_->{id} } } @{ $redis->entries('async') };
	is(scalar @phantoms, 0, "no phantom in the broker after crash $round")
	  or diag(join ', ', map { $_->{payload} } @phantoms);
}
is($published, 6, 'each crash came after something was published');
ok(wait_idle($node), 'idle after the crashes');
my %arrived = map { $_->{id} => 1 } @{ $redis->entries('async') };
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.log'), scalar keys %arrived, 'and all that is in the log arrived');
done_testing();
