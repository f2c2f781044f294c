# A private Apache Kafka node for TAP tests, read with kcat. Where there is none to be had, start_any() gives librdkafka's
# mock cluster instead, which is enough to look at records, and skip_without() skips.
package Outbox::Kafka;

use strict;
use warnings;

use File::Temp ();
use IO::Socket::INET;
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
	my $self = bless { dir => File::Temp::tempdir('outbox-kafka.XXXXXX', TMPDIR => 1) }, $class;
	push @all, $self;
	$self->run('start', $self->{dir}, $port, 'heap=384m', @properties);
	chomp($self->{bootstrap} = $self->run('bootstrap', $self->{dir}));
	return $self;
}

# A node that asks who is there: $self->{sasl} is the address of a listener for users (SASL_PLAINTEXT, mechanism PLAIN),
# $self->{tls} that of one for users with TLS (SASL_SSL), at localhost and no other name; $self->{certificate} is the
# node's (PEM). Users may do only what they are granted. The tools here use the plain listener, whose users may do
# everything. %how: users => { NAME => PASSWORD }.
sub start_secured
{
	my ($class, %how) = @_;
	my $users = jaas($how{users});
	my ($key, $certificate) = key_and_certificate();
	my $node = File::Temp->new(TEMPLATE => 'outbox-kafka.XXXXXX', SUFFIX => '.pem', TMPDIR => 1);
	print $node $key . $certificate;
	close $node;
	my $self = $class->start('heap=256m', 'authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer', 'super.users=User:ANONYMOUS',
		'listener=SASL:SASL_PLAINTEXT', 'listener=TLS:SASL_SSL:localhost',
		(map { ("listener.name.$_.sasl.enabled.mechanisms=PLAIN", "listener.name.$_.plain.sasl.jaas.config=$users") } 'sasl', 'tls'),
		'listener.name.tls.ssl.keystore.type=PEM', "listener.name.tls.ssl.keystore.location=$node");
	@$self{qw(node_file certificate)} = ($node, $certificate);
	chomp($self->{lc $_} = slurp("$self->{dir}/bootstrap.$_")) foreach 'SASL', 'TLS';
	return $self;
}

# A private key and a certificate for localhost that is signed by it, and by no one else (PEM).
sub key_and_certificate
{
	my $dir = File::Temp->newdir('outbox-certificate.XXXXXX', TMPDIR => 1);
	my $output = '';
	IPC::Run::run([ qw(openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost),
		'-keyout', "$dir/key", '-out', "$dir/certificate" ], '<', \undef, '>&', \$output) or die "openssl: $output";
	return (slurp("$dir/key"), slurp("$dir/certificate"));
}

sub jaas
{
	my ($users) = @_;
	return 'org.apache.kafka.common.security.plain.PlainLoginModule required'
	  . join('', map { qq( user_$_="$users->{$_}") } sort keys %$users) . ';';
}

# Other passwords for the users of a node that start_secured made: it is restarted with them.
sub set_users
{
	my ($self, $users) = @_;
	my $properties = slurp("$self->{dir}/server.properties");
	my $new = jaas($users);
	$properties =~ s/^(listener\.name\.\w+\.plain\.sasl\.jaas\.config)=.*$/$1=$new/mg;
	open my $file, '>', "$self->{dir}/server.properties" or die $!;
	print $file $properties;
	close $file;
	return $self->restart;
}

sub slurp { my ($name) = @_; open my $file, '<', $name or die "$name: $!"; local $/ = undef; return <$file> }

# So many nodes as one cluster: topics have a replica on each, and take a record when two have it. $self->{nodes} are the
# nodes, numbered from 1 in Kafka; stop, kill9, restart, pause and cont are for them, everything else is for the cluster.
sub start_cluster
{
	my ($class, $count, @properties) = @_;
	my $root = File::Temp::tempdir('outbox-kafka.XXXXXX', TMPDIR => 1);
	my $self = bless { root => $root, dir => $root, nodes => [] }, $class;
	push @all, $self;
	if ($ENV{OUTBOX_KAFKA_ADMIN}) { symlink $ENV{OUTBOX_KAFKA_ADMIN}, "$root/admin" or die $! }
	else
	{
		system("\${CXX:-g++} -std=c++20 -O1 -o $root/admin $ENV{OUTBOX_TOP}/test/brokers/kafka_admin.cpp -lrdkafka") == 0
		  or die 'kafka_admin.cpp does not compile';
	}
	my @taken = map { IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') // die $! } 1 .. 2 * $count;
	my @ports = map { $_->sockport } @taken;
	close $_ foreach @taken;
	my $voters = join ',', map { "$_\@127.0.0.1:" . $ports[ $count + $_ - 1 ] } 1 .. $count;
	my @starting;
	foreach my $id (1 .. $count)
	{
		my $dir = "$root/$id";
		mkdir $dir or die $!;
		symlink "$root/admin", "$dir/admin" or die $!;
		push @{ $self->{nodes} }, bless { dir => $dir, bootstrap => '127.0.0.1:' . $ports[ $id - 1 ] }, $class;
		my $output = '';
		push @starting, { output => \$output, handle => IPC::Run::start(
			[ $script, 'start', $dir, $ports[ $id - 1 ], "node.id=$id", "controller.quorum.voters=$voters", 'heap=200m',
				"default.replication.factor=$count", 'min.insync.replicas=2', @properties ], '<', \undef, '>&', \$output) };
	}
	$_->{handle}->finish or die "kafka.sh: ${ $_->{output} }" foreach @starting;
	$self->{bootstrap} = join ',', map { $_->{bootstrap} } @{ $self->{nodes} };
	return $self;
}

# The node that leads a partition; undef: none does.
sub leader
{
	my ($self, $topic, $partition) = @_;
	foreach (split /\n/, $self->topic('leaders', $topic))
	{
		my ($number, $leader) = split / /;
		return $leader > 0 ? $self->{nodes}[ $leader - 1 ] : undef if $number == $partition;
	}
	return undef;
}

# Every replica of the topic is in sync.
sub in_sync
{
	my ($self, $topic) = @_;
	return !grep { my (undef, undef, $replicas, $in_sync) = split / /; $in_sync < $replicas } split /\n/, $self->topic('leaders', $topic);
}

# The real thing, or else the mock cluster: a process of its own on a real port. It cannot be killed and restarted.
sub start_any
{
	my ($class, @properties) = @_;
	return $class->start(@properties) if available();
	my $self = bless { dir => File::Temp::tempdir('outbox-kafka.XXXXXX', TMPDIR => 1), mock => 1 }, $class;
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

# What kafka_admin.cpp does. Of a cluster any node that is up will do.
sub topic
{
	my ($self, @arguments) = @_;
	return $self->run('topic', $self->{dir}, @arguments) if !$self->{nodes};
	my ($out, $err) = ('', '');
	IPC::Run::run([ "$self->{root}/admin", $self->{bootstrap}, @arguments ], '<', \undef, '>', \$out, '2>', \$err) or die "kafka_admin @arguments: $err";
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
	return $self->topic('create', $topic, $partitions // 1, @properties);
}

# Takes away everybody's right to write to a topic, and gives it back. For a node started with authorizer().
sub authorizer
{
	return ('authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer',
		'allow.everyone.if.no.acl.found=true');
}
# The answer comes before every part of the broker has heard of it.
sub change { my ($self, @arguments) = @_; my $out = $self->topic(@arguments); select undef, undef, undef, 1; return $out }
sub deny_topic { my ($self, $topic) = @_; return $self->change('deny', $topic) }
sub allow_topic { my ($self, $topic) = @_; return $self->topic('allow', $topic) }
# Gives a user of a node that start_secured made the right to use a topic, or no more than to see it, and takes it away.
sub grant { my ($self, $topic, $user) = @_; return $self->topic('grant', $topic, $user) }
sub show { my ($self, $topic, $user) = @_; return $self->topic('show', $topic, $user) }
sub revoke { my ($self, $topic, $user) = @_; return $self->change('revoke', $topic, $user) }

sub delete_topic { my ($self, $topic) = @_; return $self->topic('delete', $topic) }

# @properties replace the topic's own settings.
sub alter_topic
{
	my ($self, $topic, @properties) = @_;
	return $self->change('alter', $topic, 0, @properties);
}

# For half a minute: a partition may have no leader just now.
sub patiently
{
	my ($do) = @_;
	for (my $end = time + 30;;)
	{
		my $value = eval { $do->() };
		return $value if defined $value;
		die $@ if time > $end;
		select undef, undef, undef, 0.5;
	}
}

# How many records a topic has ever had, over all partitions.
sub count
{
	my ($self, $topic) = @_;
	my $count = 0;
	$count += (split / /)[2] foreach split /\n/, patiently(sub { $self->topic('offsets', $topic) });
	return $count;
}

sub kcat
{
	my ($self, $topic, @arguments) = @_;
	return patiently(sub
	{
		my ($out, $err) = ('', '');
		IPC::Run::run(
			[ 'kcat', '-C', '-e', '-q', '-b', $self->{bootstrap}, '-t', $topic, '-o', 'beginning', '-X', 'check.crcs=true',
				@arguments ], '<', \undef, '>', \$out, '2>', \$err)
		  or die "kcat: $err";
		return $out;
	});
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

# A consumer that reads what comes from now on. What is returned tells how many records it has seen.
sub follow
{
	my ($self, $topic) = @_;
	my $file = "$self->{dir}/follow.$topic";
	push @{ $self->{followers} }, IPC::Run::start(
		[ 'kcat', '-C', '-u', '-q', '-b', $self->{bootstrap}, '-t', $topic, '-o', 'end', '-f', '.' ], '<', \undef, '>', $file, '2>', '/dev/null');
	return sub { return (-s $file) || 0 };
}

END
{
	my $status = $?;
	foreach my $kafka (@all)
	{
		foreach my $follower (@{ $kafka->{followers} // [] }) { eval { $follower->kill_kill(grace => 1) } }
		if ($kafka->{mock}) { eval { $kafka->{handle}->kill_kill } }
		else { eval { $_->kill9 } foreach @{ $kafka->{nodes} // [$kafka] } }
		system 'rm', '-rf', $kafka->{root} // $kafka->{dir};
	}
	$? = $status;
}

1;
