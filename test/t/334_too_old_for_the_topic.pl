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
sql(q{SELECT outbox.create_route('old', server => 'k', topic => 'old')});
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

no_server_crashed($node);
$node->stop;
done_testing();
