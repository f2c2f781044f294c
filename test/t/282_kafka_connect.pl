# The partition of every record beside the real Kafka Connect with Debezium's connector, on the same rows: by key, by a column that
# is placed as the partition, by neither; on a topic of five partitions, on one that grows to eight while both write to it, and for a
# partition that there is not. Keys, values and headers are equal, too: Connect's converters are others than Debezium Server's.
# matrix: H7 H4
# ring: long
use strict;
use warnings;

use Outbox::Connect;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
Outbox::Connect::skip_without();

# The default partitioner of Kafka's Java client: Utils.murmur2 of the key, without its sign, modulo partitions.
sub murmur2
{
	use integer;
	my @bytes = unpack 'C*', $_[0];
	my $cut = sub { no integer; return $_[0] & 0xFFFFFFFF };
	my $times = sub { no integer; my ($a, $b) = @_; return (($a & 0xFFFF) * $b + ((($a >> 16) * $b & 0xFFFF) << 16)) & 0xFFFFFFFF };
	my $hash = $cut->(0x9747b28c ^ @bytes);
	while (@bytes >= 4)
	{
		my $word = unpack 'V', pack 'C4', splice @bytes, 0, 4;
		$word = $times->($word, 0x5bd1e995);
		$word ^= $word >> 24;
		$hash = $times->($hash, 0x5bd1e995) ^ $times->($word, 0x5bd1e995);
	}
	if (@bytes)
	{
		$hash ^= $bytes[$_] << 8 * $_ foreach 0 .. $#bytes;
		$hash = $times->($hash, 0x5bd1e995);
	}
	$hash ^= $hash >> 13;
	$hash = $times->($hash, 0x5bd1e995);
	return $hash ^ $hash >> 15;
}
sub partition { my ($key, $partitions) = @_; return (murmur2($key) & 0x7FFFFFFF) % $partitions }
is(murmur2('foobar'), -790332482 & 0xFFFFFFFF, 'murmur2 as in the tests of Kafka');
is(murmur2('abc'), 479470107, 'also of three bytes');

my $node = new_node(conf => "wal_level = logical\nmax_wal_senders = 4\nlisten_addresses = '127.0.0.1'\noutbox.test_new_routes = off\n");
$node->append_conf('pg_hba.conf', 'host all debezium 127.0.0.1/32 trust');
$node->reload;
my $kafka = Outbox::Kafka->start;
$kafka->create_topic($_, 5) foreach 'theirs.order', 'ours.order';
sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql) }

sql(<<'SQL');
CREATE ROLE debezium LOGIN SUPERUSER;
CREATE TABLE public.outboxevent (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255), type varchar(255) NOT NULL, payload text, shard int);
CREATE PUBLICATION debezium FOR TABLE public.outboxevent;
CREATE VIEW public.ours AS SELECT id, aggregatetype, aggregateid, type, payload, NULL::int AS shard FROM outbox.outboxevent;
CREATE TRIGGER emit INSTEAD OF INSERT ON public.ours FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
SELECT pg_create_logical_replication_slot('theirs', 'pgoutput');
SQL
my $placement = 'shard:partition,type:header:eventType';
sql(qq{CREATE SERVER k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{bootstrap}', "topic.metadata.refresh.interval.ms" '500');
	SELECT outbox.create_route('ours', server => 'k', topic => 'ours.{aggregate_type}', format => 'debezium',
		options => '{"event.headers": "placed", "table.fields.additional.placement": "$placement"}')});
my $connect = Outbox::Connect->new($node, $kafka, 'theirs', 'public.outboxevent',
	'transforms.outbox.table.fields.additional.placement' => $placement,
	'transforms.outbox.route.topic.regex' => '(.*)', 'transforms.outbox.route.topic.replacement' => 'theirs.$1',
	'worker.producer.metadata.max.age.ms' => 500, 'worker.producer.max.block.ms' => 2000)->start;

# Rows go into both tables, in one transaction each. Each is [key, shard].
my $n = 0;
my %row; # by id
sub insert
{
	my @rows = map {
		my $id = sprintf '00000000-0000-7000-8000-%012d', ++$n;
		$row{$id} = $_;
		my ($key, $shard) = @$_;
		sprintf "('%s', 'order', %s, 'type.%d', '{\"n\": %d}', %s)", $id, defined $key ? sql_literal($key) : 'NULL', $n % 3, $n, $shard // 'NULL'
	} @_;
	my $values = join ', ', @rows;
	sql("BEGIN; INSERT INTO public.outboxevent (id, aggregatetype, aggregateid, type, payload, shard) VALUES $values;
		INSERT INTO public.ours (id, aggregatetype, aggregateid, type, payload, shard) VALUES $values; COMMIT");
	return;
}

sub arrived
{
	my ($count) = @_;
	return wait_until(sub { $kafka->count('theirs.order') >= $count && $kafka->count('ours.order') >= $count }, 120);
}

# By id; of each only one.
sub records
{
	my ($topic) = @_;
	my %by_id;
	foreach my $record (@{ $kafka->records($topic) })
	{
		my $id = $record->{headers}{id};
		fail("$topic: $id came twice") if $by_id{$id};
		delete @{ $record->{headers} }{ grep { /^__debezium/ } keys %{ $record->{headers} } }; # another one at each start
		$by_id{$id} = { map { $_ => $record->{$_} } qw(partition key payload headers) };
	}
	return \%by_id;
}

# --- five partitions ---

my @keys = map { $_ < 30 ? "k$_" : $_ < 40 ? 'x' x $_ : "Gr\xc3\xb6\xc3\x9fe \xf0\x9f\x98\x80 $_" } 0 .. 59;
insert((map { [$_] } @keys, ''), (map { [ undef, undef ] } 1 .. 40), map { ([ "k$_", $_ % 5 ], [ undef, $_ % 5 ]) } 0 .. 9);
ok(arrived($n), 'both have delivered') or diag($connect->said);

sub compare
{
	my ($what, $partitions) = @_;
	my ($theirs, $ours) = (records('theirs.order'), records('ours.order'));
	is_deeply([ sort keys %$theirs ], [ sort keys %row ], "$what: Connect has sent each row once");
	is_deeply([ sort keys %$ours ], [ sort keys %row ], "$what: so has outbox");
	my @different;
	foreach my $id (sort keys %row)
	{
		my ($key, $shard) = @{ $row{$id} };
		my ($a, $b) = ($theirs->{$id} // {}, $ours->{$id} // {});
		my @of = (defined $key || defined $shard ? 'partition' : (), qw(key payload));
		push @different, $id if join("\0", map { $_ // '-' } @{$a}{@of}) ne join("\0", map { $_ // '-' } @{$b}{@of})
		  || join("\0", map { "$_ $a->{headers}{$_}" } sort keys %{ $a->{headers} }) ne join("\0", map { "$_ $b->{headers}{$_}" } sort keys %{ $b->{headers} });
		diag(explain({ row => $row{$id}, theirs => $a, ours => $b })) if @different && $different[-1] eq $id && @different <= 3;
	}
	is_deeply(\@different, [], "$what: partition, key, value and headers are the same");
	return ($theirs, $ours);
}
my ($theirs, $ours) = compare('five partitions');
my @placed = grep { defined $row{$_}[1] } keys %row;
is(scalar(grep { $ours->{$_}{partition} != $row{$_}[1] } @placed), 0, 'a placed partition is the one, with a key and without');
my @keyed = grep { defined $row{$_}[0] && !defined $row{$_}[1] } keys %row;
is(scalar(grep { $ours->{$_}{partition} != partition($row{$_}[0], 5) } @keyed), 0, 'a key has the partition of the default partitioner');

# --- the topic grows to eight while both write ---

my $before = $n;
foreach my $round (1 .. 30)
{
	insert(map { [$_] } @keys[ 0 .. 19 ]);
	if ($round == 5) { $kafka->topic('alter', $_, 8) foreach 'theirs.order', 'ours.order' }
	select undef, undef, undef, 0.1;
}
# One that has another partition of eight than of five tells that the producers have seen it.
my ($probe) = grep { partition($_, 8) > 4 } @keys;
foreach my $topic ('theirs.order', 'ours.order')
{
	ok(wait_until(sub { insert([$probe]); arrived($n); (split / /, (split /\n/, $kafka->topic('offsets', $topic))[ partition($probe, 8) ])[2] > 0 }, 60), "$topic: the producer has seen that it grew");
}
my $after = $n;
insert((map { [$_] } @keys), map { [ "k$_", 5 + $_ % 3 ] } 0 .. 9);
ok(arrived($n), 'both have delivered') or diag($connect->said);
foreach my $topic ('theirs.order', 'ours.order')
{
	my $records = records($topic);
	is(scalar(keys %$records), $n, "$topic: each row came once while it grew");
	# When each of them hears of it is its own; until then it is one of five, then one of eight, and never back.
	my (%moved, @wrong);
	foreach my $id (sort keys %row)
	{
		my ($key, $shard) = @{ $row{$id} };
		my $partition = ($records->{$id} // {})->{partition} // -1;
		next if !defined $key;
		if (defined $shard) { push @wrong, $id if $partition != $shard; next }
		my ($five, $eight) = (partition($key, 5), partition($key, 8));
		next if $five == $eight && $partition == $five;
		if ($partition == $eight) { $moved{$key} = 1 }
		elsif ($partition != $five || $moved{$key}) { push @wrong, $id }
	}
	is_deeply(\@wrong, [], "$topic: by the number of partitions that the producer knows, and never by a smaller one again");
	my @late = grep { /(\d+)$/ && $1 > $after && defined $row{$_}[0] && !defined $row{$_}[1] } keys %row;
	is(scalar(grep { $records->{$_}{partition} != partition($row{$_}[0], 8) } @late), 0, "$topic: one of eight in the end");
}
cmp_ok($after - $before, '>', 600, 'rows were written while it grew');

# --- a partition that there is not ---

insert([ 'k1', 99 ]);
my ($nowhere) = grep { ($row{$_}[1] // 0) == 99 } keys %row;
insert([ 'k2' ]);
ok(wait_for_value($node, q{SELECT error_code FROM outbox_internal.parked}, 'NO_SUCH_PARTITION'), 'outbox makes it a dead letter');
ok(wait_until(sub { $kafka->count('ours.order') == $n - 1 }, 60), 'and goes on');
ok(wait_until(sub { $connect->said =~ /partition 99|Partition 99/i }, 60), 'Connect complains of it') or diag($connect->said);
is($kafka->count('theirs.order'), $n - 2, 'and sends nothing that is behind it');
$kafka->topic('alter', 'ours.order', 100);
sql(q{CALL outbox.redrive(route => 'ours', dry_run => false)});
ok(wait_until(sub { $kafka->count('ours.order') == $n }, 60), 'when the topic has it, it is delivered');
is(records('ours.order')->{$nowhere}{partition}, 99, 'there');
no_server_crashed($node);
done_testing();
