# A broker that closes the connection at a record too small to be accused of it (below 32 kB: a broker that crashes again and again looks the
# same) holds up its topic. The error says what the connection meets, and how large the record is.
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
my $kafka = Outbox::Kafka->start('socket.request.max.bytes=20000');
$kafka->create_topic($_, 1) foreach qw(x y);
my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
kafka_route($node, $kafka, 'kafka', topic => q('{aggregate_type}'));
sql(q{SELECT outbox.emit_text(t, '1', 'e', t) FROM unnest('{x,y}'::text[]) t});
ok(wait_idle($node), 'small events arrive');
sql(q{SELECT outbox.emit_text('x', '2', 'e', repeat('x', 26000)); SELECT outbox.emit_text('y', '2', 'e', 'beside')});
my $said = '';
ok(wait_until(sub { $said = sql(q{SELECT string_agg(error_message, ' ') FROM outbox.lag WHERE topic = 'x'}); $said =~ /is closed each time/ }, 240), 'the error says what the connection meets') or diag($said);
like($said, qr/topic "x" takes nothing .*the connection is closed each time that a record of 26\d\d\d bytes is sent, which may be above the broker's socket\.request\.max\.bytes/, 'and how large the record is');
ok(wait_until(sub { $kafka->count('y') >= 2 }, 120), 'another topic goes on');
is(sql('SELECT count(*) FROM outbox.dead_letter'), 0, 'no event is blamed');
$node->stop;
done_testing();
