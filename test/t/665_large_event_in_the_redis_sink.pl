# An event of 50 MB makes the sink process of Redis larger by about twice that, not by three or five times: it comes, becomes a command and
# waits to be sent, and what it was before is let go.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\noutbox.max_payload_size = '64MB'\n");
my $redis = Outbox::Redis->start(conf => ['appendonly no']);
redis_route($node, $redis, 'r', topic => q('s'), server_options => q(, timeout '60000'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub arrived { my ($count) = @_; return wait_until(sub { $redis->xlen('s') == $count }, 120) }

sql(q{SELECT outbox.emit_text('s', 'k', 'x', 'small')});
ok(arrived(1), 'a small event');
my ($sink) = sink_pids($node);
my $before = peak_rss_kb($sink);
sql(q{SELECT outbox.emit_text('s', 'k', 'x', repeat('x', 50000000))});
ok(arrived(2), 'a large one');
is_deeply([ sink_pids($node) ], [$sink], 'from one process');
my $more = (peak_rss_kb($sink) - $before) / 1024;
cmp_ok($more, '<', 120, sprintf 'the sink process took %d MB more for 48 MB', $more);
$node->stop;
done_testing();
