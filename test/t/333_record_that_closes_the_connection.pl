# A broker that takes smaller requests than records (socket.request.max.bytes below its message.max.bytes, or a proxy before
# it) says nothing to a record that is larger: it closes the connection. The library sends it again over the next one, first
# of all. The record is found and refused; other topics, other keys and later events of its key arrive. One that was in flight with
# it over a connection that was closed may come twice.
use strict;
use warnings;

use List::Util qw(uniq);
use Outbox::Kafka;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();

my $kafka = Outbox::Kafka->start('socket.request.max.bytes=500000');
$kafka->create_topic($_, 2) foreach qw(x y z);
my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql(qq{CREATE SERVER k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{bootstrap}')});
sql("SELECT outbox.create_route('$_', server => 'k', aggregate_types => '{$_}', topic => '$_', max_attempts => 1)") foreach qw(x y z);

sql(q{SELECT outbox.emit_text(t, k, 'e', t || k) FROM unnest('{x,y,z}'::text[]) t, generate_series(1, 20) k});
ok(wait_idle($node), 'small events arrive');

sql(q{SELECT outbox.emit_text('x', '1', 'e', 'before');
	SELECT outbox.emit_text('x', '2', 'e', repeat('x', 600000));
	SELECT outbox.emit_text('x', '2', 'e', 'after');
	SELECT outbox.emit_text('x', '3', 'e', 'beside');
	SELECT outbox.emit_text('y', '1', 'e', 'elsewhere')});
ok(wait_for_value($node, q{SELECT string_agg(format('%s %s %s', state, error_class, error_code), ',') FROM outbox.parked_event}, 'dead solo-retry CONNECTION_CLOSED', 60), 'the event is refused');
like(sql('SELECT error_message FROM outbox.parked_event'), qr/^topic "x": .* 600\d\d\d bytes.*socket\.request\.max\.bytes/, 'it says what to look at');
ok(wait_idle($node), 'all else has arrived');
is_deeply([ uniq sort grep { !/^x\d/ } @{ $kafka->payloads('x') } ], [qw(after before beside)], 'in its topic');
is_deeply([ uniq grep { !/^y\d/ } @{ $kafka->payloads('y') } ], ['elsewhere'], 'in another topic');

# The first of all that a producer sends.
sql(q{ALTER SERVER k OPTIONS (ADD "linger.ms" '1');
	SELECT outbox.emit_text('x', '4', 'e', repeat('x', 700000)); SELECT outbox.emit_text('y', '1', 'e', 'elsewhere, too')});
ok(wait_for_value($node, q{SELECT count(*) FROM outbox.parked_event WHERE error_code = 'CONNECTION_CLOSED'}, 2, 60), 'another is refused');
ok(wait_idle($node), 'and all else has arrived');
is_deeply([ uniq grep { !/^y\d/ } @{ $kafka->payloads('y') } ], [ 'elsewhere', 'elsewhere, too' ], 'in another topic, too');

# Several that are too large only together charge none.
sql(q{SELECT outbox.emit_text('z', k::text, 'e', k || repeat('z', 45000)) FROM generate_series(1, 60) k});
ok(wait_idle($node), 'a batch that was too large arrives in smaller ones');
is(scalar(uniq @{ $kafka->payloads('z') }), 80, 'all of them');
is(sql('SELECT count(*) FROM outbox.parked_event'), 2, 'and none is refused');
no_server_crashed($node);
$node->stop;
done_testing();
