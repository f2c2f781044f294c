# A peer that reads a PostgreSQL node's table as Debezium does: what Outbox::Debezium and Outbox::Connect have in common. An
# object has {script} (of test/brokers), {dir} and {lines} (its properties).
package Outbox::Capture;

use strict;
use warnings;

use File::Temp ();
use IPC::Run ();
use Test::More;

my @all;

# The whole file is skipped, with the reason, where there is none to be had.
sub skip_without_peer
{
	my ($script, $what) = @_;
	my $said = '';
	plan(skip_all => "no $what here: $said") if !IPC::Run::run([ $script, 'prepare' ], '<', \undef, '>', \my $cache, '2>', \$said);
	return;
}

sub make
{
	my ($class, $script) = @_;
	my $self = bless { script => $script, dir => File::Temp::tempdir('outbox-capture.XXXXXX', TMPDIR => 1) }, $class;
	push @all, $self;
	return $self;
}

sub run
{
	my ($self, @arguments) = @_;
	my $output = '';
	IPC::Run::run([ $self->{script}, @arguments ], '<', \undef, '>&', \$output) or die "$self->{script} @arguments: $output";
	return $output;
}

sub start { my ($self) = @_; $self->run('start', $self->{dir}, @{ $self->{lines} }); return $self }
sub stop { my ($self) = @_; $self->run('stop', $self->{dir}); return }
sub kill9 { my ($self) = @_; $self->run('kill', $self->{dir}); return }

sub said
{
	my ($self) = @_;
	open my $file, '<', "$self->{dir}/server.log" or return '';
	local $/ = undef;
	return <$file> // '';
}

END
{
	my $status = $?;
	foreach my $peer (@all)
	{
		eval { $peer->kill9 };
		system('rm', '-rf', $peer->{dir});
	}
	$? = $status;
}

1;
