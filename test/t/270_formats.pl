# What a consumer finds of one event in each format, at Kafka and at Redis, to the letter: the records that docs/formats.md shows
# are the ones that are read here. (OUTBOX_WRITE_PAGE=/tmp/formats.md scripts/test test/t/270_formats.pl writes the page as it should be
# there.)
# matrix: H5 H6 H12
use strict;
use warnings;

use JSON::PP;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $page_name = "$ENV{OUTBOX_TOP}/docs/formats.md";
my $redis = Outbox::Redis->start;
my $kafka = Outbox::Kafka->start_any;
my $node = new_node(conf => "outbox.cloudevents_source = 'https://shop.example/orders'\n");
$node->safe_psql('postgres', "CREATE SERVER kafka FOREIGN DATA WRAPPER outbox_kafka OPTIONS (\"bootstrap.servers\" '$kafka->{bootstrap}');
	CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");

# Every format there is, from the hint that lists them.
my ($names) = ($node->psql('postgres', q{SELECT outbox.create_route('r', server => 'redis', format => '?')}))[2] =~ /A format is (.*)\./;
my @formats = split /, | or /, $names;
cmp_ok(scalar(@formats), '>=', 4, "formats: $names");
foreach my $format (@formats)
{
	$kafka->create_topic("orders.$format", 1);
	foreach my $server ('kafka', 'redis')
	{
		$node->safe_psql('postgres', "SELECT outbox.create_route('$server $format', server => '$server', format => '$format', topic => 'orders.$format')");
	}
}
$node->safe_psql('postgres', q{SELECT outbox.create_route('list', server => 'redis', format => 'cloudevents-json', topic => 'list', options => '{"mode": "list"}')});

sub event
{
	my ($id, $rest) = @_;
	my ($columns, $values) = ('', '');
	foreach my $column (sort keys %$rest)
	{
		$columns .= ", $column";
		$values .= ", $rest->{$column}";
	}
	$node->safe_psql('postgres', "INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type$columns)
		VALUES ('018bcfe5-687b-7000-8000-00000000000$id', 'order', '42', 'order.paid'$values)");
	return;
}
event(1, { payload => q('{"total": 129.97}'), headers => q('{"tenant": "acme", "X-Request-Id": "7", "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}') });
event(2, { payload_bytes => q('\x00ff'), content_type => q('application/octet-stream') });
event(3, { payload_text => q('Größe "42"'), content_type => q('text/plain') });
$node->safe_psql('postgres', q{SELECT outbox.emit_tombstone('order', 42, 'order.deleted')});
ok(wait_idle($node), 'delivered by all routes');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing was parked');

# --- the page ---

# What differs from run to run, as it is on the page.
my %run = map { my ($id, $micros, $time) = split /\|/; $id => { micros => $micros, time => $time } } split /\n/, $node->safe_psql('postgres',
	q{SELECT id, (extract(epoch FROM created_at) * 1000000)::bigint, to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') FROM outbox_internal.log});
sub on_page
{
	my ($text) = @_;
	my $run = $run{'018bcfe5-687b-7000-8000-000000000001'};
	$text =~ s/\Q$run->{micros}\E/1700000000123456/g;
	$text =~ s/\Q$run->{time}\E/2023-11-14T22:13:20.123456Z/g;
	return $text;
}

my (%shown, %kafka);
sub lines { return join '', map { sprintf "%-8s %s\n", @$_ } @_ }
foreach my $format (@formats)
{
	$kafka{$format} = [ map { JSON::PP->new->decode($_) } split /\n/, $kafka->kcat("orders.$format", '-J') ];
	my $record = $kafka{$format}[0];
	my @headers = @{ $record->{headers} // [] };
	my @rows = ([ 'key', $record->{key} ], [ 'value', $record->{payload} ]);
	while (my ($name, $value) = splice @headers, 0, 2) { push @rows, [ 'header', "$name: $value" ] }
	$shown{"$format Kafka"} = on_page(lines(@rows));
	my $entry = $redis->command('XRANGE', "orders.$format", '-', '+')->[0][1];
	my @fields = @$entry;
	@rows = ();
	while (my ($name, $value) = splice @fields, 0, 2) { push @rows, [ 'field', "$name: $value" ] }
	$shown{"$format Redis"} = on_page(lines(@rows));
}

# Behind a line "<!-- FORMAT DESTINATION -->" stands a block with the record.
my $page = slurp_file($page_name);
my $written = $page;
my %found;
$written =~ s/^(<!-- (\S+ (?:Kafka|Redis)) -->\n```text\n)(.*?)(^```)/$found{$2} = $3; $1 . ($shown{$2} \/\/ $3) . $4/gems;
is_deeply([ sort keys %found ], [ sort keys %shown ], 'the page has a record of each format and destination');
if ($ENV{OUTBOX_WRITE_PAGE})
{
	open my $file, '>', $ENV{OUTBOX_WRITE_PAGE} or die $!;
	print $file $written;
	close $file;
}
is($found{$_} // '', $shown{$_}, "$_: as the page shows it") foreach sort keys %shown;

# --- the other events ---

sub kafka_headers { my ($format, $n) = @_; return { @{ $kafka{$format}[$n]{headers} // [] } } }
sub fields { my ($format, $n) = @_; return { @{ $redis->command('XRANGE', "orders.$format", '-', '+')->[$n][1] } } }
my $cloudevents = $redis->entries('orders.cloudevents-json');
sub structured { my ($n) = @_; return JSON::PP->new->utf8->decode($cloudevents->[$n]{event}) }

is($kafka{payload}[3]{payload}, undef, 'payload: a tombstone is one');
is($kafka{payload}[3]{key}, '42', 'with its key');
is_deeply(fields('payload', 3), { key => '42' }, 'at Redis it has no payload');
is(fields('payload', 1)->{payload}, "\x00\xff", 'payload: any bytes');
is($kafka{cloudevents}[3]{payload}, undef, 'cloudevents: a tombstone is one');
is(kafka_headers('cloudevents', 1)->{'content-type'}, 'application/octet-stream', 'cloudevents: the content type is of the data');
is(fields('cloudevents', 1)->{data}, "\x00\xff", 'cloudevents: any bytes');
ok(!exists fields('cloudevents', 3)->{data}, 'cloudevents at Redis: no data of a tombstone');
is(structured(1)->{data_base64}, 'AP8=', 'cloudevents-json: bytes in base64');
is(structured(2)->{data}, "Gr\x{f6}\x{df}e \"42\"", 'cloudevents-json: text as a string');
ok(!exists structured(3)->{data} && !exists structured(3)->{data_base64}, 'cloudevents-json: no data of a tombstone');
is(JSON::PP->new->utf8->decode($kafka{'cloudevents-json'}[3]{payload})->{type}, 'order.deleted', 'cloudevents-json: the event stays an event at Kafka');
my @list = map { JSON::PP->new->utf8->decode($_) } @{ $redis->command('LRANGE', 'list', 0, -1) };
is_deeply([ map { $_->{type} } @list ], [ ('order.paid') x 3, 'order.deleted' ], 'cloudevents-json: a list has whole events');
is($list[0]{source}, 'https://shop.example/orders', 'cloudevents-json: the source is the setting');

# --- what cannot be carried becomes a dead letter, and is delivered when the route can ---

# emit() refuses a name that is taken by a route's format; so it is emitted before the route has that.
$node->safe_psql('postgres', q{SELECT outbox.drop_route(name) FROM outbox.route WHERE name <> 'redis cloudevents'});
like(($node->psql('postgres', q{SELECT outbox.emit('order', 42, 'order.paid', '5', headers => '{"ce_mine": "x"}')}))[2], qr/header name "ce_mine" is taken/, 'refused at emit');
$node->safe_psql('postgres', q{SELECT outbox.pause('redis cloudevents', reason => 'another format'), outbox.alter_route('redis cloudevents', format => 'outbox')});
event(5, { payload => q('5'), headers => q('{"ce_mine": "x"}') });
event(6, { payload => q('6'), content_type => q('application/cloudevents+json') });
event(7, { payload => q('7') });
$node->safe_psql('postgres', q{SELECT outbox.alter_route('redis cloudevents', format => 'cloudevents')});
$node->safe_psql('postgres', q{SELECT outbox.resume('redis cloudevents')});
ok(wait_idle($node), 'nothing waits for them');
is($node->safe_psql('postgres', 'SELECT id, state, error_class, error_code FROM outbox_internal.parked ORDER BY created_at'),
	join("\n", '018bcfe5-687b-7000-8000-000000000005|dead|message|HEADER_NAME_TAKEN', '018bcfe5-687b-7000-8000-000000000006|dead|message|CONTENT_TYPE_TAKEN'),
	'dead letters with a code of their own');
is($redis->entries('orders.cloudevents')->[4]{ce_id}, '018bcfe5-687b-7000-8000-000000000007', 'and the key went on');
$node->safe_psql('postgres', q{SELECT outbox.alter_route('redis cloudevents', format => 'outbox')});
$node->safe_psql('postgres', q{CALL outbox.redrive(route => 'redis cloudevents', dry_run => false)});
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 60), 'tried again in another format');
my $entries = $redis->entries('orders.cloudevents');
is(join(' ', map { $_->{payload} // '-' } @{$entries}[ 5 .. $#$entries ]), '5 6', 'they are delivered in that');
is($entries->[5]{'h:ce_mine'}, 'x', 'with all that they have');

# --- a frame before the payload ---

$node->safe_psql('postgres', q{SELECT outbox.create_route('framed', server => 'redis', aggregate_types => '{framed}', topic => 'framed', format => 'payload',
	options => '{"framing": "confluent"}')});
$node->safe_psql('postgres', q{SELECT outbox.emit_bytes('framed', 1, 'x', '\x0a00', 'application/avro', headers => '{"schema_id": "258"}')});
$node->safe_psql('postgres', q{SELECT outbox.emit_bytes('framed', 1, 'x', '\x0a00', 'application/avro', headers => '{"schema_id": "latest"}')});
$node->safe_psql('postgres', q{SELECT outbox.emit_tombstone('framed', 1, 'x')});
ok(wait_idle($node), 'framed events are delivered, or refused');
is_deeply([ map { $_->{payload} } @{ $redis->entries('framed') } ], [ "\0\0\1\2\x0a\0" =~ s/^/\0/r, undef ], 'a zero byte, the id, the payload; a tombstone has no frame');
is($node->safe_psql('postgres', q{SELECT state, error_code FROM outbox_internal.parked}), 'dead|NO_SCHEMA_ID', 'an id that is none: a dead letter');

# --- the schema that an event names: in every format that has more than key and value; and frames at Kafka ---

my ($version, $uri) = ('2', 'https://schemas.example.com/order/2');
my %as = (
	'outbox Kafka' => { schema_version => $version, dataschema => $uri }, 'outbox Redis' => { 'h:schema_version' => $version, 'h:dataschema' => $uri },
	'debezium Kafka' => { schema_version => $version, dataschema => $uri }, 'debezium Redis' => {},
	'cloudevents Kafka' => { ce_schemaversion => $version, ce_dataschema => $uri }, 'cloudevents Redis' => { ce_schemaversion => $version, ce_dataschema => $uri },
	'cloudevents-json Kafka' => { schemaversion => $version, dataschema => $uri }, 'cloudevents-json Redis' => { schemaversion => $version, dataschema => $uri },
	'payload Kafka' => {}, 'payload Redis' => {});
is_deeply([ sort map { ("$_ Kafka", "$_ Redis") } @formats ], [ sort keys %as ], 'every format is asked for the schema');
foreach my $format (@formats)
{
	$kafka->create_topic("schema.$format", 1);
	$node->safe_psql('postgres', "SELECT outbox.create_route('schema $_ $format', server => '$_', format => '$format', topic => 'schema.$format', aggregate_types => '{schema}')")
	  foreach 'kafka', 'redis';
}
foreach my $format (grep { $_ eq 'outbox' || $_ eq 'payload' || $_ eq 'cloudevents' } @formats)
{
	$kafka->create_topic("framed.$format", 1);
	$node->safe_psql('postgres', qq{SELECT outbox.create_route('framed $format', server => 'kafka', format => '$format', topic => 'framed.$format', aggregate_types => '{framed}',
		options => '{"framing": "confluent"}')});
}
$node->safe_psql('postgres', qq{INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload, schema_version, dataschema) VALUES ('schema', '1', 'x', '{}', $version, '$uri')});
$node->safe_psql('postgres', q{SELECT outbox.emit_bytes('framed', 1, 'x', '\x0a0b0c', 'application/avro', headers => '{"schema_id": "258"}')});
ok(wait_idle($node), 'delivered by all of these');
foreach my $format (@formats)
{
	my $record = $kafka->records("schema.$format")->[0];
	my $fields = $redis->entries("schema.$format")->[0];
	my %got = ("$format Kafka" => { %{ $record->{headers} } }, "$format Redis" => $fields);
	if ($format eq 'cloudevents-json') { %got = ("$format Kafka" => JSON::PP->new->decode($record->{payload}), "$format Redis" => JSON::PP->new->utf8->decode($fields->{event})) }
	foreach my $what (sort keys %got)
	{
		is_deeply({ map { $_ => $got{$what}{$_} } grep { /schema/ } keys %{ $got{$what} } }, $as{$what}, "$what: the schema's version and URI");
	}
}
is($kafka->kcat("framed.$_", '-f', '%S %s'), "8 \0\0\0\1\2\x0a\x0b\x0c", "$_ at Kafka: a zero byte, the id, the payload")
  foreach grep { $_ eq 'outbox' || $_ eq 'payload' || $_ eq 'cloudevents' } @formats;

# --- where no source is set ---

$node->safe_psql('postgres', q{ALTER SYSTEM SET outbox.cloudevents_source = ''});
$node->safe_psql('postgres', q{SELECT outbox.alter_route('redis cloudevents', format => 'cloudevents'), pg_reload_conf()});
my $source = '';
wait_until(sub {
	$node->safe_psql('postgres', q{SELECT outbox.emit('order', 1, 'x', '{}')});
	wait_idle($node);
	$source = ($redis->entries('orders.cloudevents')->[-1]{ce_source}) // '';
	return $source eq '/outbox/postgres';
}, 60);
is($source, '/outbox/postgres', 'the source is made of the name of the database, as soon as the setting says so');
like(($node->psql('postgres', q{ALTER SYSTEM SET outbox.cloudevents_source = 'the shop'}))[2], qr/invalid value.*URI reference/s, 'a source that is none is refused');

no_server_crashed($node);
done_testing();
