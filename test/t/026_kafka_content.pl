# What a consumer of Kafka finds: key, value, headers and timestamp of every record to the letter, the partition that a
# Java producer would choose, explicit topics and tombstones; and an event that the broker refuses for good is parked
# with its error while its key goes on in order.
# matrix: H1 H2 H4 D5
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $kafka = Outbox::Kafka->start_any;
$kafka->create_topic('outbox.event.order', 1);
$kafka->create_topic('somewhere.else', 1);
$kafka->create_topic('java', 7);
$kafka->create_topic('narrow', 1, 'max.message.bytes=3000');

kafka_route($node, $kafka, 'kafka', aggregate_types => q('{order,explicit}'));
$node->safe_psql('postgres', q{SELECT outbox.create_route('java', server => 'kafka', aggregate_types => '{java}', topic => 'java')});
$node->safe_psql('postgres', q{SELECT outbox.create_route('narrow', server => 'kafka', aggregate_types => '{narrow}', topic => '{aggregate_type}')});

$node->safe_psql('postgres', <<'SQL');
BEGIN;
SELECT outbox.emit('order', 42, 'order.created', '{"total": 129.97}', '{"trace": "abc", "list": "a,b=c"}');
SELECT outbox.emit_text('order', 42, 'order.described', 'plain text');
SELECT outbox.emit_tombstone('order', 42, 'order.deleted');
SELECT outbox.emit('order', NULL::text, 'order.counted', '7');
SELECT outbox.emit('explicit', 'é', 'x', '{}', topic => 'somewhere.else');
COMMIT;
SQL
# Keys whose murmur2 is known from Apache Kafka's own tests (UtilsTest).
my %java = (
	'21' => -973932308, 'foobar' => -790332482, 'a-little-bit-long-string' => -985981536,
	'a-little-bit-longer-string' => -1486304829, 'lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8' => -58897971,
	'abc' => 479470107);
$node->safe_psql('postgres', "SELECT outbox.emit_text('java', '$_', 'x', '$_')") foreach sort keys %java;
ok(wait_idle($node), 'everything was delivered');

my %log = map { my @row = split /\|/; $row[0] => { id => $row[1], created_at => $row[2] } } split /\n/,
  $node->safe_psql('postgres', q{SELECT event_type, id, (extract(epoch FROM created_at) * 1000000)::bigint FROM outbox_internal.log});

sub record_is
{
	my ($record, $type, $key, $payload, %headers) = @_;
	is($record->{key}, $key, "$type: key");
	is($record->{payload}, $payload, "$type: value");
	is_deeply($record->{headers}, { id => $log{$type}{id}, type => $type, created_at => $log{$type}{created_at}, %headers }, "$type: headers");
	is($record->{header_count}, 3 + keys %headers, "$type: no header twice");
	is($record->{ts}, int($log{$type}{created_at} / 1000), "$type: timestamp");
	return;
}
my $records = $kafka->records('outbox.event.order');
is(scalar @$records, 4, 'four records in the topic of the default template');
record_is($records->[0], 'order.created', '42', '{"total": 129.97}', aggregate_type => 'order', trace => 'abc', list => 'a,b=c');
record_is($records->[1], 'order.described', '42', 'plain text', aggregate_type => 'order', 'content-type' => 'text/plain');
record_is($records->[2], 'order.deleted', '42', undef, aggregate_type => 'order');
record_is($records->[3], 'order.counted', undef, '7', aggregate_type => 'order');
is($kafka->records('somewhere.else')->[0]{headers}{aggregate_type}, 'explicit', 'an explicit topic wins over the template');

my $java = $kafka->records('java');
is(scalar @$java, scalar keys %java, 'all keys with a known hash arrived');
is($_->{partition}, ($java{ $_->{key} } & 0x7fffffff) % 7, "key $_->{key} is in the partition that Java chooses") foreach @$java;

SKIP:
{
skip $ENV{OUTBOX_NO_KAFKA}, 10 if $kafka->{mock}; # it knows no limits, and every topic

# Refused for good: too large for the topic. Random bytes, so that no compression makes it small enough.
$node->safe_psql('postgres', <<'SQL');
SELECT outbox.emit_text('narrow', 'k', 'counted', 'k ' || i) FROM generate_series(1, 20) i;
SELECT outbox.emit_text('narrow', 'k', 'too large', (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 200)));
SELECT outbox.emit_text('narrow', CASE WHEN i % 2 = 0 THEN 'k' ELSE 'other' END, 'counted', CASE WHEN i % 2 = 0 THEN 'k ' ELSE 'other ' END || i)
FROM generate_series(21, 60) i;
SQL
ok(wait_idle($node), 'idle: all delivered but the one that was refused');
is($node->safe_psql('postgres', q{SELECT state, aggregate_id, event_type, topic, error_class, error_code <> '', error_message <> '',
	parked_at > now() - interval '1 h', length(payload) FROM outbox_internal.parked}),
	'dead|k|too large|narrow|message|t|t|t|6400', 'it is parked with error, class and time, and with its payload');
my @narrow = map { $_->{payload} } @{ $kafka->records('narrow') };
is_deeply([ grep { /^k / } @narrow ], [ map { "k $_" } 1 .. 20, grep { $_ % 2 == 0 } 21 .. 60 ], 'its key went on in order, nothing twice');
is_deeply([ grep { /^other / } @narrow ], [ map { "other $_" } grep { $_ % 2 } 21 .. 60 ], 'and so did its neighbours');
is($node->safe_psql('postgres', q{SELECT s.state, s.error_class FROM outbox_internal.parked p, outbox.status(p.id) s}), 'dead|message', 'outbox.status says so');

# A topic that does not exist holds back its own events only, and they arrive when it is made.
$node->safe_psql('postgres', q{SELECT outbox.create_route('later', server => 'kafka', aggregate_types => '{later}', topic => 'later')});
$node->safe_psql('postgres', q{SELECT outbox.emit_text('later', 1, 'x', 'patience')});
$node->safe_psql('postgres', q{SELECT outbox.emit_text('java', 'abc', 'x', 'meanwhile')});
ok(wait_for_value($node, q{SELECT pending FROM outbox.lag WHERE route = 'java'}, '0', 30), 'a missing topic delays no other route');
is($node->safe_psql('postgres', q{SELECT sum(pending) FROM outbox.lag WHERE route = 'later'}), '1', 'its own event waits');
$kafka->create_topic('later', 1);
ok(wait_idle($node, 120), 'and arrives when the topic is there');
is_deeply([ map { $_->{payload} } @{ $kafka->records('later') } ], ['patience'], 'once');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '1', 'nothing else was parked');
}

# Names that the template makes of what was emitted, and that Kafka does not take: those events are dead letters, all of
# them, and whoever comes between them is not held up.
$kafka->create_topic('neighbour', 1);
$node->safe_psql('postgres', q{SELECT outbox.create_route('odd', server => 'kafka', aggregate_types => '{odd name,odd/slash,..,neighbour}', topic => '{aggregate_type}')});
$node->safe_psql('postgres', q{SELECT outbox.emit_text(t, 'k', 'x', 'k ' || i) FROM generate_series(1, 20) i, unnest('{odd name,neighbour,odd/slash,..}'::text[]) t});
ok(wait_idle($node), 'idle behind illegal topics');
is(by_key([ map { $_->{payload} } @{ $kafka->records('neighbour') } ])->{k}, join(' ', 1 .. 20), 'a legal one between them gets its events, in order, once');
is($node->safe_psql('postgres', q{SELECT aggregate_type, state, error_class, error_code, count(*) FROM outbox_internal.parked WHERE aggregate_type ~ 'odd|^\.' GROUP BY 1, 2, 3, 4 ORDER BY aggregate_type COLLATE "C"}),
	join("\n", map { "$_|dead|message|INVALID_TOPIC|20" } '..', 'odd name', 'odd/slash'), 'each of the others is a dead letter');
no_server_crashed($node);
done_testing();
