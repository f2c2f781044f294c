# A private, real Kafka Connect worker with Debezium's connector, for TAP tests: from a table of a PostgreSQL node to Kafka.
package Outbox::Connect;

use strict;
use warnings;

use Outbox::Capture;
use parent -norequire, 'Outbox::Capture';

my $script = "$ENV{OUTBOX_TOP}/test/brokers/connect.sh";

# The whole file is skipped, with the reason, where there is none to be had.
sub skip_without { return Outbox::Capture::skip_without_peer($script, 'Kafka Connect') }

# Reads slot NAME of table $table, into topics as the outbox event router says. A publication `debezium` has to be there.
# %properties: of the connector, or of the worker as worker.NAME.
sub new
{
	my ($class, $node, $kafka, $name, $table, %properties) = @_;
	my $self = $class->make($script);
	my $string = 'org.apache.kafka.connect.storage.StringConverter';
	my %worker = ('bootstrap.servers' => $kafka->{bootstrap}, 'key.converter' => $string, 'value.converter' => $string, 'offset.flush.interval.ms' => 500);
	my %connector = (
		'name' => $name, 'connector.class' => 'io.debezium.connector.postgresql.PostgresConnector', 'tasks.max' => 1,
		'database.hostname' => '127.0.0.1', 'database.port' => $node->port, 'database.user' => 'debezium', 'database.password' => 'x',
		'database.dbname' => 'postgres', 'topic.prefix' => $name, 'plugin.name' => 'pgoutput', 'slot.name' => $name,
		'publication.name' => 'debezium', 'publication.autocreate.mode' => 'disabled', 'snapshot.mode' => 'no_data',
		'table.include.list' => $table, 'tombstones.on.delete' => 'false', 'poll.interval.ms' => 50,
		'transforms' => 'outbox', 'transforms.outbox.type' => 'io.debezium.transforms.outbox.EventRouter');
	foreach my $property (keys %properties)
	{
		if ($property =~ /^worker\.(.*)/) { $worker{$1} = $properties{$property} }
		else { $connector{$property} = $properties{$property} }
	}
	$self->{lines} = [ (map { "worker.$_=$worker{$_}" } sort keys %worker), map { "connector.$_=$connector{$_}" } sort keys %connector ];
	return $self;
}

1;
