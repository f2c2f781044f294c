# What large events needed is given back: by a worker that expands JSON on many lanes, and by the sink process of Redis.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\noutbox.max_payload_size = '64MB'\n");
my $redis = Outbox::Redis->start(conf => ['appendonly no']);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub arrived { my ($stream, $count) = @_; return wait_until(sub { $redis->xlen($stream) == $count }, 120) }

sql("CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}', timeout '60000')");
sql(q{SELECT outbox.create_route('expands', server => 'redis', aggregate_types => '{order}', topic => 'expanded', lanes => 16,
	format => 'debezium', options => '{"table.expand.json.payload": "true", "value.converter": "json"}')});
sql(q{SELECT outbox.create_route('whole', server => 'redis', aggregate_types => '{file}', topic => 'files')});

# Each lane: an event of half a million values, then one of a few.
my $emit = q{SELECT count(outbox.emit('order', 'k' || i, 'e', '%s'::json)) FROM generate_series(1, 64) i};
sql(sprintf $emit, '{"a": [1]}');
ok(arrived('expanded', 64), 'small events');
my ($worker) = relay_pids($node);
my $before = rss_kb($worker);
sql(sprintf $emit, '{"a": [1' . ',1' x 450_000 . ']}');
ok(arrived('expanded', 128), 'large ones');
sql(sprintf $emit, '{"a": [1]}');
ok(arrived('expanded', 192), 'small ones');
is_deeply([ relay_pids($node) ], [$worker], 'all from one worker');
my $kept = (rss_kb($worker) - $before) / 1024;
cmp_ok($kept, '<', 128, sprintf 'the worker holds %d MB more than before', $kept);

my ($sink) = sink_pids($node);
$before = rss_kb($sink);
sql(q{SELECT outbox.emit_text('file', '1', 'e', repeat('x', 50000000), 'text/plain')});
ok(arrived('files', 1), 'a large file');
sql(q{SELECT outbox.emit_text('file', '1', 'e', 'x', 'text/plain')});
ok(arrived('files', 2), 'a small one');
is_deeply([ sink_pids($node) ], [$sink], 'from one process');
$kept = (rss_kb($sink) - $before) / 1024;
cmp_ok($kept, '<', 32, sprintf 'the sink process holds %d MB more than before', $kept);
done_testing();
