# The largest event that emit() accepts by default is one that a Kafka with its defaults takes: however many headers it has, and with a trace.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
my $kafka = Outbox::Kafka->start_any;
$kafka->create_topic('largest', 1);
kafka_route($node, $kafka, 'kafka', aggregate_types => q('{aaa*}'), topic => q('largest'));
# With names of four characters, as many headers as are accepted; or one.
$node->safe_psql('postgres', q{
	CREATE FUNCTION headers(bytes int) RETURNS jsonb LANGUAGE sql AS
		$$SELECT jsonb_object_agg(to_char(i, 'FM0000'), '') FROM generate_series(1, bytes / 8) i$$;
	CREATE FUNCTION largest(key text, headers jsonb) RETURNS uuid LANGUAGE sql AS $$
		SELECT outbox.emit_text(repeat('a', 255), rpad(key, 1000, 'k'), repeat('e', 255), repeat('x', 1008 * 1024), repeat('c', 244) || '/plain', headers) $$});
sub largest
{
	my ($key, $headers, $trace) = @_;
	return $node->safe_psql('postgres', ($trace // '') . qq{SELECT largest('$key', $headers)});
}
my @ids = (largest('many', 'headers(12288)'), largest('one', q{jsonb_build_object('h', repeat('v', 12283))}));
my $trace = q{SET outbox.traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'; SET outbox.tracestate = 'a=} . 't' x 510 . q{'; SET outbox.baggage = 'b=} . 'b' x 2998 . q{'; };
push @ids, largest('traced', 'headers(12288)', $trace), largest('baggage', q{jsonb_build_object('h', 'v')}, $trace);
my (undef, undef, $error) = $node->psql('postgres', q{SELECT largest('more', headers(12296))});
like($error, qr/headers are too large\nDETAIL:  Names and values have 12296 bytes together, with 4 more for each header; at most 12288 are allowed\./, 'one more is refused by emit()');
wait_idle($node);
is($node->safe_psql('postgres', q{SELECT string_agg(DISTINCT error_code, ', ') FROM outbox.parked_event}), '', 'Kafka has refused none');
is($node->safe_psql('postgres', "SELECT string_agg(s.state, ' ') FROM unnest('{" . join(',', @ids) . "}'::uuid[]) u, outbox.status(u) s"), 'delivered delivered delivered delivered', 'and all have arrived');
is_deeply([ map { [ exists $_->{headers}{tracestate} ? 1 : 0, exists $_->{headers}{baggage} ? 1 : 0 ] } @{ $kafka->records('largest') }[2, 3] ], [ [ 1, 0 ], [ 1, 1 ] ],
	'baggage goes where it fits');

# In CloudEvents' binary mode names have a prefix, and what an event is made of is there more than once: the page says how much room that takes.
$kafka->create_topic('cloud', 1);
kafka_route($node, $kafka, 'cloud', aggregate_types => q('{cloud}'), topic => q('cloud'), format => q('cloudevents'));
my $cloud = q{SET outbox.max_payload_size = '1000kB'; SELECT outbox.emit_text('cloud', rpad('k', 1000, 'k'), repeat('e', 255), repeat('x', 1000 * 1024),
	repeat('c', 244) || '/plain', %s)};
# As many headers as are accepted, with names as short as can be.
my $short = q{(SELECT jsonb_object_agg(name, '') FROM (SELECT chr(97 + i / 676) || chr(97 + i / 26 % 26) || chr(97 + i % 26) FROM generate_series(0, 1754) i) n (name))};
@ids = map { $node->safe_psql('postgres', sprintf(($_->[1] // '') . $cloud, $_->[0])) } [$short], [ q{jsonb_build_object('h', 'v')}, $trace ];
wait_idle($node);
is($node->safe_psql('postgres', "SELECT string_agg(coalesce(s.state, '?'), ' ') FROM unnest('{" . join(',', @ids) . "}'::uuid[]) u, outbox.status(u) s WHERE s.route = 'cloud'"), 'delivered delivered',
	'CloudEvents arrive');
no_server_crashed($node);
done_testing();
