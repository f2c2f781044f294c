# The format debezium beside Debezium's connector in a real Kafka Connect, for payloads that are bytes: a column of type bytea, once in a table that
# the connector reads, once in a view that emits. As they are; base64 in JSON, also where JSON is expanded, and in an envelope; and what of it is a
# tombstone.
# matrix: H7
# ring: long
use strict;
use warnings;

use Outbox::Connect;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
Outbox::Connect::skip_without();

my $node = new_node(conf => "wal_level = logical\nmax_wal_senders = 4\nlisten_addresses = '127.0.0.1'\noutbox.test_new_routes = off\n");
$node->append_conf('pg_hba.conf', 'host all debezium 127.0.0.1/32 trust');
$node->reload;
my $kafka = Outbox::Kafka->start;
sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql) }

sql(<<'SQL');
CREATE ROLE debezium LOGIN SUPERUSER;
CREATE TABLE public.outboxevent (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255), type varchar(255) NOT NULL, payload bytea);
CREATE PUBLICATION debezium FOR TABLE public.outboxevent;
CREATE VIEW public.ours AS SELECT id, aggregatetype, aggregateid, type, NULL::bytea AS payload FROM outbox.outboxevent;
CREATE TRIGGER emit INSTEAD OF INSERT ON public.ours FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
SQL
sql(qq{CREATE SERVER k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{bootstrap}')});

# name => Debezium's properties, ours
my %json = ('value.converter' => 'org.apache.kafka.connect.json.JsonConverter', 'value.converter.schemas.enable' => 'false');
my $router = 'transforms.outbox';
my @cases = (
	[ 'raw', { 'value.converter' => 'org.apache.kafka.connect.converters.ByteArrayConverter', 'binary.handling.mode' => 'bytes', "$router.route.tombstone.on.empty.payload" => 'true' },
		'{"route.tombstone.on.empty.payload": true}' ],
	[ 'expanded', { %json, "$router.table.expand.json.payload" => 'true', "$router.route.tombstone.on.empty.payload" => 'true' },
		'{"table.expand.json.payload": true, "route.tombstone.on.empty.payload": true}' ],
	[ 'enveloped', { %json, "$router.table.expand.json.payload" => 'true', "$router.table.fields.additional.placement" => 'type:envelope' },
		'{"table.expand.json.payload": true, "table.fields.additional.placement": "type:envelope"}' ]);

# Bytes that are no text, none, blanks, JSON, text; and no payload.
my @payloads = map { "'\\x" . unpack('H*', $_) . "'::bytea" } "\x00\xff\x80", '', '  ', '{"a": 1}', '[1]', "Gr\xc3\xb6\xc3\x9fe", "\xff" x 1000;
my $n = 0;
my $values = join ', ', map { sprintf "('00000000-0000-7000-8000-%012d', 'bytes', 'k%d', 'type', %s)", ++$n, $n, $_ } @payloads, 'NULL';

# Key and value of each record, by id. JSON is ASCII here; other values as hexadecimal digits.
sub records
{
	my ($topic) = @_;
	my $read = $kafka->kcat($topic, '-f', '%K %S %h\n%k%s\n');
	my %by_id;
	while ($read =~ /\G(-?\d+) (-?\d+) ([^\n]*)\n/gc)
	{
		my ($key, $value, $headers) = ($1, $2, $3);
		my ($id) = $headers =~ /\bid=([0-9a-f-]{36})/;
		my $from = pos $read;
		$by_id{ $id // $headers } = { key => substr($read, $from, $key < 0 ? 0 : $key),
			value => $value < 0 ? 'null' : unpack('H*', substr($read, $from + ($key < 0 ? 0 : $key), $value)) };
		pos($read) = $from + ($key < 0 ? 0 : $key) + ($value < 0 ? 0 : $value) + 1;
	}
	return \%by_id;
}

my @connects;
foreach my $case (@cases)
{
	my ($name, $theirs, $ours) = @$case;
	$kafka->create_topic($_, 1) foreach "$name.theirs.bytes", "$name.ours.bytes";
	sql("SELECT pg_create_logical_replication_slot('$name', 'pgoutput')");
	sql("SELECT outbox.create_route('$name', server => 'k', topic => '$name.ours.{aggregate_type}', format => 'debezium', options => '$ours')");
	push @connects, Outbox::Connect->new($node, $kafka, $name, 'public.outboxevent', "$router.route.topic.regex" => '(.*)',
		"$router.route.topic.replacement" => "$name.theirs.\$1", %$theirs);
}
sql("INSERT INTO public.outboxevent VALUES $values");
sql("INSERT INTO public.ours VALUES $values");
ok(wait_idle($node), 'outbox has delivered');
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing is parked');
foreach my $i (0 .. $#cases)
{
	my $name = $cases[$i][0];
	$connects[$i]->start;
	ok(wait_until(sub { $kafka->count("$name.theirs.bytes") >= $n }, 180), "$name: Debezium has delivered") or diag($connects[$i]->said);
	$connects[$i]->stop;
	my ($theirs, $ours) = (records("$name.theirs.bytes"), records("$name.ours.bytes"));
	is(scalar(keys %$theirs), $n, "$name: every row");
	is_deeply($ours, $theirs, "$name: key and value are equal byte by byte") or diag(explain({ theirs => $theirs }));
}
no_server_crashed($node);
done_testing();
