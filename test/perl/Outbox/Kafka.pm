# A private Apache Kafka node for TAP tests, read with kcat. Where there is none to be had, start_any() gives librdkafka's
# mock cluster instead, which is enough to look at records, and skip_without() skips.
package Outbox::Kafka;

use strict;
use warnings;

use File::Temp ();
use IPC::Run ();
use JSON::PP ();
use Test::More;

my $script = "$ENV{OUTBOX_TOP}/test/brokers/kafka.sh";
my @all;

sub available { return !$ENV{OUTBOX_NO_KAFKA} }

# The whole file is skipped, with the reason, where Kafka cannot be had.
sub skip_without
{
	plan(skip_all => $ENV{OUTBOX_NO_KAFKA}) if $ENV{OUTBOX_NO_KAFKA};
	return;
}

# @properties: lines of server.properties. Topics must be created by create_topic.
sub start
{
	my ($class, @properties) = @_;
	return $class->start_at(0, @properties);
}

# The same on a port that was chosen before.
sub start_at
{
	my ($class, $port, @properties) = @_;
	my $self = bless { dir => File::Temp::tempdir('/tmp/outbox-kafka.XXXXXX') }, $class;
	push @all, $self;
	$self->run('start', $self->{dir}, $port, @properties);
	chomp($self->{bootstrap} = $self->run('bootstrap', $self->{dir}));
	return $self;
}

# The real thing, or else the mock cluster: a process of its own on a real port. It cannot be killed and restarted.
sub start_any
{
	my ($class, @properties) = @_;
	return $class->start(@properties) if available();
	my $self = bless { dir => File::Temp::tempdir('/tmp/outbox-kafka.XXXXXX'), mock => 1 }, $class;
	push @all, $self;
	system("\${CXX:-g++} -std=c++20 -O1 -o $self->{dir}/kafka_mock $ENV{OUTBOX_TOP}/test/brokers/kafka_mock.cpp -lrdkafka") == 0
	  or die 'kafka_mock.cpp does not compile';
	$self->{handle} = IPC::Run::start([ "$self->{dir}/kafka_mock", $self->{dir} ], '<', \undef, '>&', \my $output);
	chomp($self->{bootstrap} = $self->wait_for_file('bootstrap', qr/:\d+$/m));
	diag('no Apache Kafka here: against librdkafka\'s mock cluster');
	return $self;
}

sub wait_for_file
{
	my ($self, $name, $pattern) = @_;
	for (1 .. 200)
	{
		if (open my $file, '<', "$self->{dir}/$name")
		{
			local $/ = undef;
			my $text = <$file> // '';
			return $text if $text =~ $pattern;
		}
		select undef, undef, undef, 0.05;
	}
	die "the mock cluster never wrote $name";
}

sub run
{
	my ($self, @arguments) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ $script, @arguments ], '<', \undef, '>', \$out, '2>', \$err)
	  or die "kafka.sh @arguments: $err";
	return $out;
}

sub stop { my ($self) = @_; $self->run('stop', $self->{dir}) }
sub kill9 { my ($self) = @_; $self->run('kill', $self->{dir}) }
sub restart { my ($self) = @_; $self->run('restart', $self->{dir}) }
sub pause { my ($self) = @_; $self->run('pause', $self->{dir}) }
sub cont { my ($self) = @_; $self->run('cont', $self->{dir}) }

sub create_topic
{
	my ($self, $topic, $partitions, @properties) = @_;
	if ($self->{mock})
	{
		open my $commands, '>', "$self->{dir}/commands" or die $!;
		print $commands $topic, ' ', $partitions // 1, "\n";
		close $commands;
		return $self->wait_for_file('topics', qr/^\Q$topic\E$/m);
	}
	return $self->run('topic', $self->{dir}, 'create', $topic, $partitions // 1, @properties);
}

# Takes away everybody's right to write to a topic, and gives it back. For a node started with authorizer().
sub authorizer
{
	return ('authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer',
		'allow.everyone.if.no.acl.found=true');
}
sub deny_topic { my ($self, $topic) = @_; return $self->run('topic', $self->{dir}, 'deny', $topic) }
sub allow_topic { my ($self, $topic) = @_; return $self->run('topic', $self->{dir}, 'allow', $topic) }

sub delete_topic { my ($self, $topic) = @_; return $self->run('topic', $self->{dir}, 'delete', $topic) }

# @properties replace the topic's own settings.
sub alter_topic
{
	my ($self, $topic, @properties) = @_;
	return $self->run('topic', $self->{dir}, 'alter', $topic, 0, @properties);
}

# How many records a topic has ever had, over all partitions.
sub count
{
	my ($self, $topic) = @_;
	my $count = 0;
	$count += (split / /)[2] foreach split /\n/, $self->run('topic', $self->{dir}, 'offsets', $topic);
	return $count;
}

sub kcat
{
	my ($self, $topic, @arguments) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run(
		[ 'kcat', '-C', '-e', '-q', '-b', $self->{bootstrap}, '-t', $topic, '-o', 'beginning', '-X', 'check.crcs=true',
			@arguments ], '<', \undef, '>', \$out, '2>', \$err)
	  or die "kcat: $err";
	return $out;
}

# All records of a topic, each { partition, offset, key, payload, headers => {name => value}, ts }, by partition and
# offset. For payloads that are text.
sub records
{
	my ($self, $topic) = @_;
	my @records;
	foreach my $line (split /\n/, $self->kcat($topic, '-J'))
	{
		my $record = JSON::PP->new->utf8->decode($line);
		my %headers = @{ $record->{headers} // [] };
		$record->{header_count} = @{ $record->{headers} // [] } / 2;
		$record->{headers} = \%headers;
		push @records, $record;
	}
	return [ sort { $a->{partition} <=> $b->{partition} || $a->{offset} <=> $b->{offset} } @records ];
}

# The payloads of a big topic, in order within each partition; payloads must hold no line break.
sub payloads
{
	my ($self, $topic) = @_;
	return [ split /\n/, $self->kcat($topic, '-f', '%s\n') ];
}

END
{
	my $status = $?;
	foreach my $kafka (@all)
	{
		$kafka->{mock} ? eval { $kafka->{handle}->kill_kill } : eval { $kafka->kill9 };
		system 'rm', '-rf', $kafka->{dir};
	}
	$? = $status;
}

1;
