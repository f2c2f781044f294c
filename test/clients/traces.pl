# What is on the wire is enough for a span of the producer: OpenTelemetry's SDK for Python, with the propagators that it has, reads
# real records of Kafka and entries of Redis, in every format that has headers, and builds one whose trace, parent, state, baggage
# and times are those of the request that emitted, whether it said so by header, by setting or in a comment of its statement. The
# code of docs/traces.md.
# matrix: H12
use strict;
use warnings;

use IPC::Run;
use JSON::PP;
use Outbox::Test;
use Test::More;

Outbox::Kafka->skip_without;
my $there = $ENV{OUTBOX_CLIENTS};
my %installed = map { /^(\S+) (.*)/ ? ($1 => $2) : () } split /\n/, $ENV{OUTBOX_CLIENTS_SAID} // '';
plan(skip_all => "python: $installed{python}") if ($installed{python} // 'ok') ne 'ok';
my $json = JSON::PP->new->utf8->canonical;

my $kafka = Outbox::Kafka->start;
my $redis = Outbox::Redis->start;
my $node = new_node();
$node->safe_psql('postgres', "CREATE SERVER kafka FOREIGN DATA WRAPPER outbox_kafka OPTIONS (\"bootstrap.servers\" '$kafka->{bootstrap}');
	CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
my @routes = map { my $server = $_; map { [ $server, $_ ] } qw(outbox cloudevents cloudevents-json debezium) } qw(kafka redis);
foreach my $route (@routes)
{
	my ($server, $format) = @$route;
	# One topic tells when the broker took a record, the others when the event was emitted.
	$kafka->create_topic("traces.$format", 1, $format eq 'outbox' ? 'message.timestamp.type=LogAppendTime' : ()) if $server eq 'kafka';
	my $options = "$server $format" eq 'redis debezium' ? '{"message.format": "extended"}' : '{}';
	$node->safe_psql('postgres', "SELECT outbox.create_route('$server $format', server => '$server', topic => 'traces.$format', format => '$format', options => '$options')");
}

# --- five requests, each with a trace of its own; the last has none, and a payload that is no text ---

my %request = map { my ($n, $flags) = @$_; $n => { trace => sprintf('%032x', 0x4bf92f35 + $n), parent => sprintf('%016x', 0xf067aa + $n), flags => $flags } }
  [ 1, '01' ], [ 2, '01' ], [ 3, '01' ], [ 4, '00' ];
sub parent { my ($n) = @_; return "00-$request{$n}{trace}-$request{$n}{parent}-$request{$n}{flags}" }
$node->safe_psql('postgres', "SELECT outbox.emit('order', 1, 'header', '1', headers => jsonb_build_object(
	'traceparent', '" . parent(1) . "', 'tracestate', 'congo=t61,rojo=1', 'baggage', 'userId=alice,plan=a%20b'))");
$node->safe_psql('postgres', "BEGIN; SET LOCAL outbox.traceparent = '" . parent(2) . "'; SET LOCAL outbox.tracestate = 'congo=t62'; SET LOCAL outbox.baggage = 'userId=bob';
	SELECT outbox.emit('order', 2, 'setting', '2'); COMMIT");
# As a session of an application sends it: alone.
$node->safe_psql('postgres', 'ALTER DATABASE postgres SET outbox.trace_from_comment = on');
$node->safe_psql('postgres', "SELECT outbox.emit('order', 3, 'comment', '3') /*traceparent='" . parent(3) . "',tracestate='congo%3Dt63',baggage='userId%3Dcarol'*/");
$node->safe_psql('postgres', "SELECT outbox.emit('order', 4, 'not sampled', '4', headers => '{\"traceparent\": \"" . parent(4) . "\"}')");
$node->safe_psql('postgres', q{SELECT outbox.emit_bytes('order', 5, 'none', '\x00ff')});
my @state = ('congo=t61,rojo=1', 'congo=t62', 'congo=t63', '', '');
my @baggage = ({ userId => 'alice', plan => 'a b' }, { userId => 'bob' }, { userId => 'carol' }, {}, {});
ok(wait_idle($node), 'delivered');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing was parked');
my @log = map { [ split /\|/ ] } split /\n/, $node->safe_psql('postgres', q{SELECT id, (extract(epoch FROM created_at) * 1000000)::bigint FROM outbox_internal.log ORDER BY created_at});
is(scalar(@log), 5, 'five events');

# --- what their consumer makes of them ---

foreach my $route (@routes)
{
	my ($server, $format) = @$route;
	my $topic = "traces.$format";
	my @from = $server eq 'kafka' ? $kafka->{bootstrap} : "redis://127.0.0.1:$redis->{port}";
	my ($out, $err) = ('', '');
	IPC::Run::run([ "$there/python/venv/bin/python", "$there/python/traces_consumer.py", $server, @from, $topic, 5 ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(180));
	my @read = map { $json->decode($_) } split /\n/, $out;
	is(scalar(@read), 5, "$server, $format: reads all") or diag($err);
	foreach my $n (1 .. @read)
	{
		my ($got, $request, $what) = ($read[ $n - 1 ], $request{$n}, "$server, $format, event $n");
		my ($id, $micros) = @{ $log[ $n - 1 ] };
		is($got->{message}, $id, "$what: is that event");
		is_deeply($got->{baggage}, $baggage[ $n - 1 ], "$what: the baggage");
		if ($n == 4)
		{
			is_deeply($got->{spans}, [], "$what: is not sampled, and has no span");
			next;
		}
		my ($producer, $process) = @{ $got->{spans} };
		is(scalar(@{ $got->{spans} }), 2, "$what: has a span of the producer, and of the consumer");
		is("$producer->{name} $producer->{kind}", "send $topic PRODUCER", "$what: of that kind");
		is_deeply([ @{$producer}{qw(trace parent tracestate)} ], [ $request->{trace}, $request->{parent}, $state[ $n - 1 ] ], "$what: the parent is who emitted") if $request;
		ok($producer->{remote}, "$what: elsewhere") if $request;
		is($producer->{parent}, undef, "$what: without a parent it begins a trace") if !$request;
		is($producer->{attributes}{'messaging.message.id'}, $id, "$what: the message's id");
		is($producer->{attributes}{'messaging.destination.name'}, $topic, "$what: the destination");
		# Without the time on the wire it is that of the record, which has milliseconds.
		my $start = $format ne 'debezium' ? $micros : $server eq 'kafka' ? int($micros / 1000) * 1000 : $producer->{end};
		is($producer->{start}, $start, "$what: begins when it was emitted");
		if ($server eq 'redis' || $format eq 'outbox')
		{
			# In milliseconds, so that it may be before.
			cmp_ok($producer->{end}, '>=', $producer->{start}, "$what: ends when the broker had it");
			cmp_ok($producer->{end}, '<', $producer->{start} + 60_000_000, "$what: soon");
		}
		else { is($producer->{end}, $producer->{start}, "$what: has no length where nobody says when the broker had it") }
		is_deeply([ @{$process}{qw(name kind trace parent)} ], [ "process $topic", 'CONSUMER', @{$producer}{qw(trace span)} ], "$what: and the consumer's span belongs to it");
	}
}
no_server_crashed($node);
done_testing();
