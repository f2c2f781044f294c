# What docs/routes.md says of a Kafka topic that is to have more partitions: add them in a pause, change an option of the server, and all
# that goes there from then on is in its key's new partition.
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();

my $kafka = Outbox::Kafka->start;
my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql(qq{CREATE SERVER k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{bootstrap}')});
$kafka->create_topic('grows', 2);
$kafka->create_topic('eight', 8);
sql(q{SELECT outbox.create_route('r', server => 'k', topic => '{aggregate_type}')});

my $keys = 50;
sub emit { my ($what) = @_; return sql("SELECT outbox.emit_text(t, 'k' || k, 'e', '$what') FROM generate_series(1, $keys) k, unnest('{grows,eight}'::text[]) t") }
# The partition of each key in a topic, of the records with this payload.
sub partitions { my ($topic, $what) = @_; return { map { $_->{key} => $_->{partition} } grep { $_->{payload} eq $what } @{ $kafka->records($topic) } } }

emit('before');
ok(wait_idle($node), 'a topic of two partitions takes events');
sql(q{SELECT outbox.pause('r', topic => 'grows', reason => 'more partitions')});
emit('meanwhile');
ok(wait_until(sub { $kafka->count('eight') == 2 * $keys }, 60), 'what is emitted in the pause waits, of other topics it goes on');
is($kafka->count('grows'), $keys, 'nothing goes to the topic');
$kafka->topic('alter', 'grows', 8);
my ($change) = slurp_file("$ENV{OUTBOX_TOP}/docs/routes.md") =~ /Change any option of the server, such as `ALTER SERVER events ([^`]+);`/;
unlike($change, qr/client\.id/, 'the page changes nothing that quotas go by');
sql("ALTER SERVER k $change");
sql(q{SELECT outbox.resume('r', topic => 'grows')});
emit('after');
ok(wait_idle($node), 'it goes on');
is($kafka->count('grows'), 3 * $keys, 'each has arrived once');
is_deeply(partitions('grows', $_), partitions('eight', $_), "$_: where keys belong in a topic of eight") foreach qw(meanwhile after);
my ($before, $after) = (partitions('grows', 'before'), partitions('grows', 'after'));
cmp_ok(scalar(grep { $before->{$_} != $after->{$_} } keys %$before), '>', 0, 'which is not where some of them were');

no_server_crashed($node);
$node->stop;
done_testing();
