# A topic that takes no event above an age (message.timestamp.before.max.ms): one that has become too old, in a pause or an
# outage, gets no younger. It is a dead letter, later events of its key and all other keys go on.
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();

my $kafka = Outbox::Kafka->start;
my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql(qq{CREATE SERVER k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{bootstrap}')});

my $limit = 40_000;
$kafka->create_topic('old', 2, "message.timestamp.before.max.ms=$limit");
sql(q{SELECT outbox.create_route('old', server => 'k', topic => 'old', aggregate_types => '{t}')});
sql(q{SELECT outbox.emit_text('t', 'first', 'e', 'first')});
ok(wait_idle($node), 'an event of just now arrives');
sql(q{SELECT outbox.pause('old', reason => 'a deployment')});
sql(q{SELECT outbox.emit_text('t', k::text, 'e', 'old ' || k) FROM generate_series(1, 20) k});
my $past = sprintf '%d ms', $limit + 2_000;
ok(wait_for_value($node, "SELECT max(created_at) < now() - interval '$past' FROM outbox_internal.log", 't', 120), 'those of a pause become too old');
sql(q{SELECT outbox.emit_text('t', '1', 'e', 'new of its key'); SELECT outbox.emit_text('t', 'k' || k, 'e', 'new ' || k) FROM generate_series(1, 20) k; SELECT outbox.resume('old')});
ok(wait_idle($node), 'the others go on');
is(sql(q{SELECT count(*), min(state), max(state), min(error_class), max(error_class), min(error_code) FROM outbox.parked_event}), '20|dead|dead|message|message|INVALID_TIMESTAMP', 'they are dead letters');
like(sql('SELECT min(error_message) FROM outbox.parked_event'), qr/message\.timestamp\.before\.max\.ms/, 'it says for what');
is($kafka->count('old'), 22, 'all others have arrived, each once');

# A topic that puts the broker's time into each record looks at no age, whatever the setting says: also once the settings
# are known, for the sake of another record.
$kafka->create_topic('any', 2, 'message.timestamp.type=LogAppendTime', 'message.timestamp.before.max.ms=5000', 'max.message.bytes=100000');
sql(q{SELECT outbox.create_route('any', server => 'k', topic => 'any', aggregate_types => '{any}')});
sql(q{SELECT outbox.pause('any', reason => 'a deployment')});
sql(q{SELECT outbox.emit_text('any', 'big', 'e', repeat('x', 300000)); SELECT outbox.emit_text('any', k::text, 'e', 'old ' || k) FROM generate_series(1, 20) k});
ok(wait_for_value($node, "SELECT max(created_at) < now() - interval '8 s' FROM outbox_internal.log", 't', 120), 'events that are older than that');
sql(q{SELECT outbox.resume('any')});
ok(wait_idle($node), 'they go, and one that is too large does not');
is(sql(q{SELECT string_agg(DISTINCT error_code || ' ' || aggregate_id, ',') FROM outbox.dead_letter WHERE route = 'any'}), 'MSG_SIZE_TOO_LARGE big', 'which is the only dead letter');
is($kafka->count('any'), 20, 'all others have arrived, each once');

no_server_crashed($node);
$node->stop;
done_testing();
