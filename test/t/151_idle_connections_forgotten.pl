# A NAT or a load balancer that forgets a connection and says nothing: the first Kafka event after that arrives within
# twenty seconds, once, and no event is charged.
# matrix: D9 R10
use strict;
use warnings;

use Outbox::Proxy;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

Outbox::Kafka::skip_without();
my $node = new_node();
my $proxy = Outbox::Proxy->new;
my $kafka = $proxy->kafka;
my $own = $kafka->{bootstrap};
$kafka->create_topic('quiet', 1);
kafka_route($node, $kafka, 'quiet', topic => q('quiet'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
my $delivered = q{SELECT sum(delivered) FROM outbox.lag WHERE route = 'quiet'};

sql(q{SELECT outbox.emit('order', 1, 'x', '{}')});
ok(wait_idle($node, 60), 'an event is delivered');
$proxy->tell('kafka', 'forget');
my $start = time;
sql(q{SELECT outbox.emit('order', 2, 'x', '{}')});
ok(wait_idle($node, 60), 'the connection is forgotten: the next one too');
my $took = time - $start;
cmp_ok($took, '<', 20, sprintf 'after %.1f s', $took);
sql(q{SELECT outbox.emit('order', 3, 'x', '{}')});
ok(wait_idle($node, 20), 'and the next');
is($kafka->count('quiet'), 3, 'each once');
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'no event is charged');
$proxy->stop;
no_server_crashed($node);
done_testing();
