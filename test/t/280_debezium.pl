# The format debezium beside the real Debezium Server: the same rows, once in a plain outbox table that the server reads, once
# in outbox.outboxevent, give records that are equal byte by byte: partition, key, value and headers (as sets). For the default
# configuration, and for those that teams use most; to Kafka, and to Redis as both of Debezium's layouts. Rows are as nasty as
# Debezium can take; what stops it is told of in test/unit/debezium_test.cpp.
# Not compared: Debezium's own headers __debezium.context.*, one of which is another one at each start, and the time of a record.
# matrix: H7
# ring: long
use strict;
use warnings;

use Outbox::Debezium;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
Outbox::Debezium::skip_without();

my $node = new_node(conf => "wal_level = logical\nmax_replication_slots = 20\nmax_wal_senders = 20\nlisten_addresses = '127.0.0.1'\n"
	  . "outbox.test_new_routes = off\n");
$node->append_conf('pg_hba.conf', 'host all debezium 127.0.0.1/32 trust');
$node->reload;
my $kafka = Outbox::Kafka->start;
my $redis = Outbox::Redis->start;

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE debezium LOGIN SUPERUSER;
CREATE TABLE public.outboxevent (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(2000),
	type varchar(255) NOT NULL, payload text, shard int);
CREATE PUBLICATION debezium FOR TABLE public.outboxevent;
CREATE VIEW public.ours AS SELECT id, aggregatetype, aggregateid, type, payload, NULL::int AS shard FROM outbox.outboxevent;
CREATE TRIGGER emit INSTEAD OF INSERT ON public.ours FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
CREATE SERVER k FOREIGN DATA WRAPPER outbox_kafka;
CREATE SERVER r FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1');
SQL
$node->safe_psql('postgres', "ALTER SERVER k OPTIONS (ADD \"bootstrap.servers\" '$kafka->{bootstrap}')");
$node->safe_psql('postgres', "ALTER SERVER r OPTIONS (ADD port '$redis->{port}')");

# --- the configurations: Debezium's properties, ours, whether payloads are expanded ---

my $placement = 'table.fields.additional.placement';
my $header = '{"header.converter": "json", "event.headers": "placed"';
my %json = ('format.value' => 'json');
my @kafka = (
	[ 'default', {}, "$header}" ],
	[ 'placed', { "router.$placement" => 'type:header:eventType,shard:header,aggregatetype:header' },
		qq($header, "$placement": "type:header:eventType,shard:header:shard:number,aggregatetype:header"}) ],
	[ 'enveloped', { %json, "router.$placement" => 'type:envelope:eventType,shard:envelope,aggregateid:envelope,id:envelope:event' },
		qq($header, "$placement": "type:envelope:eventType,shard:envelope:shard:number,aggregateid:envelope,id:envelope:event"}) ],
	[ 'expanded', { %json, 'router.table.expand.json.payload' => 'true' }, qq($header, "table.expand.json.payload": true}) ],
	[ 'both', { %json, 'format.key' => 'json', 'router.table.expand.json.payload' => 'true', 'router.table.json.payload.null.behavior' => 'optional_bytes',
			"router.$placement" => 'type:envelope', 'router.route.tombstone.on.empty.payload' => 'true' },
		qq($header, "key.converter": "json", "table.expand.json.payload": true, "table.json.payload.null.behavior": "optional_bytes",
			"$placement": "type:envelope", "route.tombstone.on.empty.payload": true}) ],
	[ 'tombstones', { 'router.route.tombstone.on.empty.payload' => 'true' }, qq($header, "route.tombstone.on.empty.payload": true}) ]);
my @redis = (
	[ 'compact', {}, '{}' ],
	[ 'extended', { 'sink.redis.message.format' => 'extended', "router.$placement" => 'type:header:eventType,shard:header' },
		qq($header, "message.format": "extended", "$placement": "type:header:eventType,shard:header:shard:number"}) ]);

# Everything goes to topic NAME.order, from both.
sub properties
{
	my ($name, %more) = @_;
	my %properties = ('transforms.outbox.route.topic.regex' => '(.*)', 'transforms.outbox.route.topic.replacement' => "$name.\$1");
	foreach my $property (keys %more)
	{
		my $whole = $property =~ s/^router\./transforms.outbox./r;
		$properties{$whole} = $more{$property};
	}
	return %properties;
}

my (@servers, @routes);
foreach my $config (@kafka, @redis)
{
	my ($name, $theirs, $ours) = @$config;
	my $to_kafka = grep { $_ == $config } @kafka;
	$kafka->create_topic("$name.order", 5) if $to_kafka;
	$node->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('$name', 'pgoutput')");
	push @servers, Outbox::Debezium->new($node, $name, 'public.outboxevent',
		$to_kafka ? Outbox::Debezium::kafka($kafka) : Outbox::Debezium::redis($redis), properties($name, %$theirs));
	push @routes, [ $name, $to_kafka ? 'k' : 'r', $ours ];
}

# --- the rows ---

my @payloads = (undef, '', '   ', "\n", 'Größe 42 € 😀', '"a json string"', '{not json', 'null', '42', 'true', 'plain', '{}', '  {"a": 1}', '{"a": 1} trailing',
	'{"a": 1, "b": [1, 2, 3], "c": {"d": null, "e": "x"}}', '{"a": [1, null, 2]}', '{"a": null}', '{"a": 1, "b": 2, "a": 3}', '{"a": [1, "x"]}',
	'{"long": 1234567890123, "dec": 1.10, "exp": 1e3, "neg": -0, "min": -9223372036854775808}', '{"x": 1e400, "y": -1e400, "z": 1e-400}', '{"e": [], "o": {}}',
	'{"u": "\u00e9\u20ac\ud83d\ude00 é/\\\\ \\" \n \t \b \f \r \u0001 \u001f \u007f \u2028 😀", "sl": "a/b\/c"}',
	'{"f": 0.1, "g": 1.0, "h": 100000000.0, "i": 1e7, "j": 1.5e-7, "k": -0.0, "l": 123456789.123456789, "m": 0.001, "n": 0.0001, "o": 9999999.0, "p": 2e23}',
	'{"t": 5e-324, "u": 1.7976931348623157e308, "v": 2e-3, "w": 1E+2, "x": 123e-2, "y": 0e5, "z": 3.0e-5}',
	'{"m": [1, 2147483648]}', '{"n": [[1], [2]]}', '{"n": [[], [2]]}', '{"a": [null, null]}', '{"": 1}', '{"a.b": 2, "ä": true, "s": "\ud83d"}',
	'{"a": [1.0, 2.5]}', '{"a": [{}, {}]}', '{"a":[true,false,null],"b":["x",null]}', '{"a": [{"b": null}]}', '{"x": {"y": {"z": [{"q": "w"}]}}}',
	'{"a": [{"b": 1, "c": "x"}, {"b": 2, "c": "y"}]}', '{"a": 01}', '{"a": 1.}', '{"a": .5}', '{"a": NaN}', '{"a": 1,}', q({'a': 1}), "{\"a\": \"x\ty\"}",
	'{"a": 1 /* c */}', '{"a": "\x"}', '{"a": ' . ('[' x 1001) . (']' x 1001) . '}', '{"text": "' . ('x' x 20_000) . '"}', '{"deep": ' . ('{"a":' x 50) . '1' . ('}' x 50) . '}');
my $values = join ",\n", map {
	my $n = $_;
	my $key = $n % 10 == 4 ? 'NULL' : $n == 5 ? sql_literal('k' x 900) : $n == 6 ? "''" : $n == 7 ? sql_literal('Größe 😀') : "'k" . $n % 7 . "'";
	$key = "'k'" if !defined $payloads[$n];    # a tombstone has a key
	sprintf "('00000000-0000-7000-8000-%012d', 'order', %s, %s, %s, %s)", $n, $key, $n == 8 ? q('Größe " \ 😀') : "'type.$n'",
	  defined $payloads[$n] ? sql_literal($payloads[$n]) : 'NULL', $n % 3 == 0 ? 'NULL' : $n % 3
} 0 .. $#payloads;
$node->safe_psql('postgres', "INSERT INTO public.outboxevent (id, aggregatetype, aggregateid, type, payload, shard) VALUES $values");

# --- Debezium, four at a time ---

my $rows = @payloads;

# Records by event, without what is Debezium's own.
sub kafka_records
{
	my ($name) = @_;
	my %by_id;
	foreach my $record (@{ $kafka->records("$name.order") })
	{
		my %headers = map { $_ => $record->{headers}{$_} } grep { !/^__debezium/ } keys %{ $record->{headers} };
		# Without a key both choose any partition.
		push @{ $by_id{ $headers{id} } },
		  { headers => \%headers, map { $_ => $record->{$_} } qw(key payload), defined $record->{key} ? 'partition' : () };
	}
	return \%by_id;
}

sub redis_records
{
	my ($name) = @_;
	return [ map {
		my %fields = @{ $_->[1] };
		delete @fields{ grep { /^__DEBEZIUM/ } keys %fields };
		\%fields
	} @{ $redis->command('XRANGE', "$name.order", '-', '+') } ];
}

sub arrived { my ($name, $to_kafka) = @_; return $to_kafka ? $kafka->count("$name.order") : $redis->xlen("$name.order") }

my %theirs;
for (my $i = 0; $i < @servers; $i += 3)
{
	my @some = grep { $_ < @servers } $i .. $i + 2;
	$servers[$_]->start foreach @some;
	foreach my $one (@some)
	{
		my ($name, $server) = @{ $routes[$one] };
		ok(wait_until(sub { arrived($name, $server eq 'k') >= $rows || $servers[$one]->said =~ /Engine has failed/ }, 180), "$name: Debezium has delivered");
		is(arrived($name, $server eq 'k'), $rows, "$name: every row once")
		  or diag(join "\n", grep { /ERROR|Caused/ } split /\n/, $servers[$one]->said);
		$theirs{$name} = $server eq 'k' ? kafka_records($name) : redis_records($name);
		$servers[$one]->stop;
	}
}

# --- ours, into the same topics, behind theirs ---

foreach my $route (@routes)
{
	my ($name, $server, $options) = @$route;
	$node->safe_psql('postgres', "SELECT outbox.create_route('$name', server => '$server', topic => '$name.{aggregate_type}', format => 'debezium', options => "
		  . sql_literal($options) . ')');
}
$node->safe_psql('postgres', "INSERT INTO public.ours (id, aggregatetype, aggregateid, type, payload, shard) VALUES $values");
ok(wait_idle($node), 'outbox has delivered');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing is parked');

my @lossy;
foreach my $route (@routes)
{
	my ($name, $server) = @$route;
	is(arrived($name, $server eq 'k'), 2 * $rows, "$name: ours came behind theirs, every row once");
	if ($server eq 'r')
	{
		my @all = @{ redis_records($name) };
		is_deeply([ @all[ $rows .. 2 * $rows - 1 ] ], $theirs{$name}, "$name: the same entries in the same order");
		next;
	}
	my $both = kafka_records($name);
	my $different = 0;
	foreach my $id (sort keys %$both)
	{
		my @records = @{ $both->{$id} };
		next if @records == 2 && eq_deeply_of(@records);
		$different++;
		diag(explain({ $id => \@records })) if $different <= 3;
	}
	is(scalar keys %$both, $rows, "$name: the same events");
	is($different, 0, "$name: partition, key, value and headers are equal byte by byte");
}

sub eq_deeply_of
{
	my ($one, $two) = @_;
	return JSON::PP->new->canonical->encode($one) eq JSON::PP->new->canonical->encode($two);
}
no_server_crashed($node);
done_testing();
