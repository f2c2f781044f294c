# A user who may write to a topic, and not read its settings (kafka-acls --producer grants no DescribeConfigs): events that are too old
# for it are dead letters after a few tries, not after all of them one event of a key after the other; the error and
# test_server() name the right.
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();

my $kafka = Outbox::Kafka->start(Outbox::Kafka::authorizer());
my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql(qq{CREATE SERVER k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{bootstrap}')});

my $limit = 40_000;
$kafka->create_topic($_, 1, "message.timestamp.before.max.ms=$limit") foreach qw(old open);
$kafka->change('hide', 'old');
sub settings { my ($topic) = @_; return sql(qq{SELECT ok, error_code IS NULL, detail || ' ' || hint FROM outbox.test_server('k', '$topic', timeout => '30 s') WHERE "check" = 'settings'}) }
like(settings('old'), qr/^t\|t\|.*may not be read.*--operation DescribeConfigs --topic old/, 'test_server() names the right that is missing');
is(settings('open'), '', 'and nothing where it is there');

sql(q{SELECT outbox.create_route('old', server => 'k', topic => 'old')});
sql(q{SELECT outbox.emit_text('t', 'first', 'e', 'first')});
ok(wait_idle($node), 'an event of just now arrives');
sql(q{SELECT outbox.pause('old', reason => 'a deployment')});
sql(q{SELECT outbox.emit_text('t', 'k', 'e', 'old ' || k) FROM generate_series(1, 5) k});
my $past = sprintf '%d ms', $limit + 2_000;
ok(wait_for_value($node, "SELECT max(created_at) < now() - interval '$past' FROM outbox_internal.log", 't', 120), 'five of one key become too old in a pause');
sql(q{SELECT outbox.resume('old')});
ok(wait_for_value($node, q{SELECT count(*) FROM outbox.dead_letter}, '5', 60), 'all five are dead letters a minute later');
is(sql(q{SELECT count(*), min(error_code), max(error_code), max(attempts) < 6 FROM outbox.dead_letter}), '5|INVALID_TIMESTAMP|INVALID_TIMESTAMP|t', 'after a few tries each');
is(sql(q{SELECT count(*) FROM outbox.dead_letter WHERE error_message !~ 'message\.timestamp\.before\.max\.ms.*DescribeConfigs'}), '0', 'each says for what, and which right is missing');
sql(q{SELECT outbox.emit_text('t', 'k', 'e', 'new of its key')});
ok(wait_idle($node), 'a new one of the key goes on');
is($kafka->count('old'), 2, 'and has arrived');

no_server_crashed($node);
$node->stop;
done_testing();
