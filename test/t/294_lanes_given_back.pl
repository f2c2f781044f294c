# A worker that gives many lanes back does so in a transaction for hundreds of them, and waits for no row that somebody holds: the
# other lanes go on meanwhile. What was held is given back when it is free, of those who hold one or very many, in one after the other.
# matrix: A4s
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $lanes = 600;    # more than are given back in one transaction
my $node = new_node(conf => "outbox.workers = 1\nautovacuum = off\noutbox.max_lanes = 1024\n");
my $redis = Outbox::Redis->start(conf => ['appendfsync no']);
redis_route($node, $redis, 'one', topic => q('one'));

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub set { my ($setting) = @_; sql("ALTER SYSTEM SET $setting"); return sql('SELECT pg_reload_conf()') }
sub parts { return wait_for_value($node, q(SELECT string_agg(n::text, ' ' ORDER BY n) FROM (SELECT count(*) AS n FROM outbox_internal.lane GROUP BY owner) l), $_[0], 60) }
# Transactions that have written anything so far.
sub written { return sql('SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint') }

sql("SELECT outbox.create_route('m' || n, server => 'one', topic => 'm' || n, lanes => 60) FROM generate_series(1, @{[$lanes / 60]}) n");
ok(parts($lanes + 1), 'one worker has all');
emit_counted($node, 'first', [qw(a b c)], 1, 30);
ok(wait_idle($node), 'all delivered');

my $before = written();
set('outbox.workers = 2');
ok(parts('300 301'), 'two have half of them each');
cmp_ok(sql('SELECT count(DISTINCT xmin::text) FROM outbox_internal.lane'), '<=', 20, 'some 300 lanes were claimed in few transactions');
# Their worker then meets the server with each, under a lock of its row: that is 300 by themselves, soon after.
ok(wait_until(sub { my $now = written(); sleep 0.5; return written() == $now }, 30), 'then there is rest');
my $written = written() - $before;
cmp_ok($written, '<', 500, "and given back in few: $written in all");

# Somebody holds the rows of all lanes but the first ones; what is claimed first is let go last.
my $holder = $node->background_psql('postgres');
$holder->query_safe("BEGIN; SELECT count(*) FROM (SELECT FROM outbox_internal.lane WHERE lane > 9 FOR UPDATE) l");
set('outbox.workers = 3');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.worker WHERE kind = 'relay' AND state = 'running'), '3', 30), 'a third worker is there');
sleep 2;    # they let go of lanes that they cannot give back
# Of all keys: whichever lane an event is in, it comes, unless its lane is one that has been let go.
my ($since, $slowest) = (time, 0);
while (time - $since < 3)
{
	my $at = time;
	my $count = $redis->xlen('one');
	sql(q(SELECT outbox.emit_text('t', 'x', 'one', 'one')));
	wait_until(sub { $redis->xlen('one') > $count }, 10);
	$slowest = time - $at if time - $at > $slowest;
	sleep 0.05;
}
cmp_ok($slowest, '<', 3, "no event of a lane that goes on waits for rows that are held: $slowest s at most");
$holder->query_safe('COMMIT');
$holder->quit;
ok(parts('199 201 201'), 'what was held is given back, and three have a third of them each');

emit_counted($node, 'last', [qw(a b c)], 1000, 1029);
ok(wait_idle($node), 'all delivered');
# In order: the number of each key grows.
my %last;
my $wrong = 0;
foreach my $entry (@{ $redis->entries('m7') })
{
	my ($key, $number) = split / /, $entry->{payload};
	next if !defined $number;
	$wrong++ if ($last{$key} // 0) >= $number;
	$last{$key} = $number;
}
is($wrong, 0, 'each key came in order, and none twice');
is(scalar(keys %last), 3, 'of three keys');

set('outbox.workers = 1');
ok(parts($lanes + 1), 'one worker has all again');
no_server_crashed($node);
done_testing();
