# A private, real Debezium Server for TAP tests: from a table of a PostgreSQL node to Kafka or Redis.
package Outbox::Debezium;

use strict;
use warnings;

use Outbox::Capture;
use parent -norequire, 'Outbox::Capture';

my $script = "$ENV{OUTBOX_TOP}/test/brokers/debezium.sh";

# The whole file is skipped, with the reason, where there is no Debezium to be had.
sub skip_without { return Outbox::Capture::skip_without_peer($script, 'Debezium Server') }

# What any server needs: slot NAME of table $table. A publication `debezium` has to be there.
sub new
{
	my ($class, $node, $name, $table, %properties) = @_;
	my $self = $class->make($script);
	$self->{name} = $name;
	my %all = (
		'source.connector.class' => 'io.debezium.connector.postgresql.PostgresConnector',
		'source.offset.storage.file.filename' => "$self->{dir}/offsets.dat",
		'source.offset.flush.interval.ms' => 0,
		'source.database.hostname' => '127.0.0.1', 'source.database.port' => $node->port, 'source.database.user' => 'debezium',
		'source.database.password' => 'x', 'source.database.dbname' => 'postgres', 'source.topic.prefix' => $name,
		'source.plugin.name' => 'pgoutput', 'source.slot.name' => $name, 'source.publication.name' => 'debezium',
		'source.publication.autocreate.mode' => 'disabled', 'source.snapshot.mode' => 'no_data', 'source.table.include.list' => $table,
		'source.tombstones.on.delete' => 'false', 'source.status.update.interval.ms' => 200,
		'transforms' => 'outbox', 'transforms.outbox.type' => 'io.debezium.transforms.outbox.EventRouter',
		'format.key' => 'simplestring', 'format.value' => 'simplestring', 'format.header.schemas.enable' => 'false',
		'format.key.schemas.enable' => 'false', 'format.value.schemas.enable' => 'false', %properties);
	$self->{lines} = [ map { "debezium.$_=$all{$_}" } sort keys %all ];
	return $self;
}

sub kafka
{
	my ($kafka) = @_;
	my $string = 'org.apache.kafka.common.serialization.StringSerializer';
	return ('sink.type' => 'kafka', 'sink.kafka.producer.bootstrap.servers' => $kafka->{bootstrap},
		'sink.kafka.producer.key.serializer' => $string, 'sink.kafka.producer.value.serializer' => $string);
}

sub redis { my ($redis) = @_; return ('sink.type' => 'redis', 'sink.redis.address' => "127.0.0.1:$redis->{port}") }

1;
