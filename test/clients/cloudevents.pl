# The official SDKs of CloudEvents read what the formats cloudevents and cloudevents-json write to Kafka: every attribute, every kind of
# payload, with the SDKs of Python and Java, found to be binary or structured by themselves.
use strict;
use warnings;

use IPC::Run;
use JSON::PP;
use MIME::Base64;
use Outbox::Test;
use Test::More;

Outbox::Kafka->skip_without;
my $there = $ENV{OUTBOX_CLIENTS};
my %installed = map { /^(\S+) (.*)/ ? ($1 => $2) : () } split /\n/, $ENV{OUTBOX_CLIENTS_SAID} // '';
my $json = JSON::PP->new->utf8->allow_nonref->canonical;

my $kafka = Outbox::Kafka->start;
my $node = new_node();
$node->safe_psql('postgres', "CREATE SERVER kafka FOREIGN DATA WRAPPER outbox_kafka OPTIONS (\"bootstrap.servers\" '$kafka->{bootstrap}')");
foreach my $format ('cloudevents', 'cloudevents-json')
{
	$kafka->create_topic($format, 1);
	$node->safe_psql('postgres', qq{SELECT outbox.create_route('$format', server => 'kafka', topic => '$format', format => '$format',
		options => '{"source": "https://shop.example/orders?a=b"}')});
}
$node->safe_psql('postgres', <<'SQL');
SELECT outbox.emit('order', 42, 'order.paid', '{"total": 129.97, "who": "Jürgen \"J\""}', headers => '{"tenant": "acme", "X-Request-Id": "7",
  "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "dataschema": "https://s.example/order/2", "schema_version": "2"}');
SELECT outbox.emit('order', 'größe/1 a', 'order.noted', '"a text"');
SELECT outbox.emit('order', NULL::text, 'order.counted', '7');
SELECT outbox.emit_text('order', 42, 'order.described', E'Größe "42"\n', 'text/plain; charset=utf-8');
SELECT outbox.emit_bytes('order', 42, 'order.signed', '\x00ff0d0a');
SELECT outbox.emit_text('order', 42, 'order.half', '{"a":', 'application/vnd.half+json');
SELECT outbox.emit_tombstone('order', 42, 'order.deleted');
SQL
ok(wait_idle($node), 'delivered');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing was parked');

my @log = map { $json->decode($_) } split /\n/, $node->safe_psql('postgres', q{
	SELECT jsonb_build_object('id', id, 'subject', aggregate_id, 'type', event_type, 'time', (extract(epoch FROM created_at) * 1000000)::bigint,
		'datacontenttype', coalesce(content_type, 'application/json'), 'payload', translate(encode(payload, 'base64'), E'\n', ''), 'headers', headers)
	FROM outbox_internal.log ORDER BY created_at});
is(scalar(@log), 7, 'seven events');

sub check
{
	my ($who, $format, @command) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ @command, $kafka->{bootstrap}, $format, scalar(@log) ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(180));
	my @got = map { $json->decode($_) } split /\n/, $out;
	is(scalar(@got), scalar(@log), "$who reads all of $format") or diag($err);
	foreach my $i (0 .. $#got)
	{
		my ($event, $log) = ($got[$i], $log[$i]);
		my $what = "$who, $format, $log->{type}";
		is_deeply([ @{$event}{qw(id type subject time source)} ], [ @{$log}{qw(id type subject time)}, 'https://shop.example/orders?a=b' ], "$what: attributes");
		is($event->{datacontenttype}, $log->{datacontenttype}, "$what: content type");
		is($event->{dataschema}, ($log->{headers} // {})->{dataschema}, "$what: schema");
		is($event->{extensions}{sequence}, $log->{time}, "$what: sequence");
		is($event->{extensions}{aggregatetype}, 'order', "$what: aggregate type");
		is($event->{extensions}{$_}, ($log->{headers} // {})->{$_}, "$what: $_") foreach 'tenant', 'traceparent';
		is($event->{extensions}{schemaversion}, ($log->{headers} // {})->{schema_version}, "$what: schema's version");
		my $payload = defined $log->{payload} ? decode_base64($log->{payload}) : undef;
		# A consumer gets bytes, or what the SDK has made of JSON or text.
		my $bytes = defined $event->{bytes} ? decode_base64($event->{bytes}) : undef;
		my $is_json = $log->{datacontenttype} eq 'application/json';
		my $value = defined $bytes && $bytes ne '' ? ($is_json ? $json->decode($bytes) : $bytes) : $event->{data};
		utf8::encode($value) if defined $value && !ref $value && utf8::is_utf8($value) && !$is_json;
		is_deeply($value, defined $payload ? ($is_json ? $json->decode($payload) : $payload) : undef, "$what: data");
	}
	return;
}
foreach my $client (
	[ python => "$there/python/venv/bin/python", "$there/python/cloudevents_consumer.py" ],
	[ java => 'java', '-cp', "$there/java/lib/*:$there/java/classes", 'CloudEventsConsumer' ])
{
	my ($language, @command) = @$client;
  SKIP:
	{
		skip "$language: $installed{$language}", 1 if ($installed{$language} // 'ok') ne 'ok';
		check($language, $_, @command) foreach 'cloudevents', 'cloudevents-json';
	}
}
no_server_crashed($node);
done_testing();
