# An event for whose record the relay worker does not get the memory is parked and tried again, and all others go on: the worker
# does not end, which its successor would do as well. Where it does end for want of memory, a warning says so, and at which lane.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\noutbox.max_payload_size = '64MB'\noutbox.lone_emit = allow\n");
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub limit { my ($pid, $bytes) = @_; return system('prlimit', '--pid', $pid, "--as=$bytes:") == 0 }
sub emit { my ($type, $payload) = @_; return sql("SELECT outbox.emit_text('$type', '1', 'e', $payload, 'text/plain')") }

sql(q(CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null;
	SELECT outbox.create_route('large', server => 'nowhere', topic => 't', aggregate_types => '{large}', format => 'debezium',
		options => '{"value.converter": "json"}');
	SELECT outbox.create_route('other', server => 'nowhere', topic => 't', aggregate_types => '{other}')));
emit($_, "'x'") foreach qw(large other);
ok(wait_idle($node), 'small ones');

# A control character is six in JSON.
my ($worker) = relay_pids($node);
ok(limit($worker, 1024 * Outbox::Test::status_kb($worker, 'VmSize') + 100 * 1024 * 1024), 'a worker that gets 100 MB more');
emit('large', q(repeat(E'\x01', 12 * 1024 * 1024)));
emit($_, "'x'") foreach qw(large other);
ok(wait_for_value($node, q(SELECT string_agg(state || coalesce(' ' || error_code, ''), ', ' ORDER BY created_at) FROM outbox.parked_event), 'retrying OUT_OF_MEMORY, blocked', 60),
	'an event of which a record of 72 MB is to be made is parked, and the next of its key waits')
  || diag(sql('SELECT * FROM outbox.parked_event'));
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.lag WHERE route = 'other' AND pending = 0), 1, 60), 'another route goes on');
is((relay_pids($node))[0], $worker, 'the worker lives');
ok(limit($worker, 'unlimited'), 'there is memory again');
# It may be refused: that the worker tries it just then is as good.
$node->psql('postgres', q(SELECT outbox.retry(id) FROM outbox.parked_event WHERE state = 'retrying'));
ok(wait_idle($node), 'all is delivered');
is((relay_pids($node))[0], $worker, 'by the same worker');
unlike(slurp_file($node->logfile), qr/outbox relay ends/, 'which has not ended');

# Anywhere else.
my $mark = -s $node->logfile;
Outbox::Faults::arm('submit.before', 'fail');
emit('other', "'x'");
ok(wait_idle($node), 'the next worker goes on');
like(slurp_file($node->logfile, $mark), qr/WARNING:  outbox relay ends, at lane 0 of route "other": out of memory\n.*sqlstate=53200/s,
	'the log says why, and where');
done_testing();
