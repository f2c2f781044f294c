# Brokers behind test/chaos/proxy, which can refuse, cut and slow what passes; Outbox::Nemesis and tests tell it so.
package Outbox::Proxy;

use strict;
use warnings;

use IO::Socket::INET;
use IPC::Run ();
use Outbox::Kafka;
use PostgreSQL::Test::Utils;

# Stops listening.
sub free_port { return IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport }

# {files}: name => control file, as Outbox::Nemesis takes them.
sub new { my ($class) = @_; return bless { dir => PostgreSQL::Test::Utils::tempdir(), files => {}, runs => [] }, $class }

sub start
{
	my ($self, $name, $port, $target) = @_;
	my $file = $self->{files}{$name} = "$self->{dir}/$name.proxy";
	push @{ $self->{runs} },
	  IPC::Run::start([ "$ENV{OUTBOX_TOP}/test/chaos/proxy", $port, $target, $file ], '<', \undef, '>>', "$self->{dir}/$name.log", '2>&1');
	return;
}

# The port at which the Redis is to be found.
sub redis
{
	my ($self, $redis) = @_;
	my $port = free_port();
	$self->start('redis', $port, $redis->{port});
	return $port;
}

# A Kafka that tells its clients the proxy's port, which {proxied} has too; its own {bootstrap} is for the tools here.
sub kafka
{
	my ($self) = @_;
	my ($port, $own) = (free_port(), free_port());
	$self->start('kafka', $port, $own);
	my $kafka = Outbox::Kafka->start_at($own, "advertised.listeners=PLAINTEXT://127.0.0.1:$port");
	$kafka->{proxied} = { bootstrap => "127.0.0.1:$port" };
	return $kafka;
}

# Tells one of them what to do, and returns when it does it.
sub tell
{
	my ($self, $name, $line) = @_;
	my $file = $self->{files}{$name};
	open my $new, '>', "$file.new" or die "$file: $!";
	print $new "$line\n";
	close $new;
	rename "$file.new", $file or die "$file: $!";
	for (1 .. 1000)
	{
		return if -e "$file.heard" && PostgreSQL::Test::Utils::slurp_file("$file.heard") eq "$line\n";
		select undef, undef, undef, 0.01;
	}
	die "the proxy of $name never heard '$line'";
}

sub stop { my ($self) = @_; $_->kill_kill foreach splice @{ $self->{runs} }; return }

1;
