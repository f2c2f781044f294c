# A private Redis for TAP tests, spoken to in its own protocol so that values of any bytes come back unchanged.
package Outbox::Redis;

use strict;
use warnings;

use File::Temp ();
use IO::Socket::INET;
use IPC::Run ();

my $script = "$ENV{OUTBOX_TOP}/test/brokers/redis.sh";
my @all;

# %options: conf => [lines], password, user.
sub start
{
	my ($class, %options) = @_;
	my $self = bless { dir => File::Temp::tempdir('outbox-redis.XXXXXX', TMPDIR => 1), %options }, $class;
	push @all, $self;
	$self->run('start', $self->{dir}, 0, @{ $options{conf} // [] });
	open my $file, '<', "$self->{dir}/port" or die "no port file: $!";
	chomp($self->{port} = <$file>);
	return $self;
}

# Another connection to the same server.
sub connect_to
{
	my ($other) = @_;
	my %copy = map { $_ => $other->{$_} } grep { $_ ne 'socket' } keys %$other;
	return bless \%copy, ref $other;
}

sub run
{
	my ($self, @arguments) = @_;
	my $output = '';
	IPC::Run::run([ $script, @arguments ], '<', \undef, '>&', \$output) or die "redis.sh @arguments: $output";
	return $output;
}

# Drops the connection: it will be made again.
sub forget { my ($self) = @_; delete $self->{socket}; return $self }

sub stop { my ($self) = @_; $self->forget->run('stop', $self->{dir}) }
sub kill9 { my ($self) = @_; $self->forget->run('kill', $self->{dir}) }
sub restart { my ($self) = @_; $self->forget->run('restart', $self->{dir}) }
sub pause { my ($self) = @_; $self->run('pause', $self->{dir}) }
sub cont { my ($self) = @_; $self->run('cont', $self->{dir}) }

# One command; returns a scalar, undef for nil, or an array reference. Errors of the server die.
sub command
{
	my ($self, @words) = @_;
	if (!$self->{socket})
	{
		$self->{socket} = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port})
		  or die "cannot connect to Redis: $!";
		binmode $self->{socket};
		$self->command('AUTH', $self->{user} // (), $self->{password}) if defined $self->{password};
		$self->command('SELECT', $self->{db}) if $self->{db};
	}
	my $request = '*' . @words . "\r\n" . join '', map { '$' . length($_) . "\r\n$_\r\n" } @words;
	print { $self->{socket} } $request;
	return $self->reply;
}

sub reply
{
	my ($self) = @_;
	my $socket = $self->{socket};
	local $/ = "\r\n";
	my $line = <$socket> // die 'Redis closed the connection';
	chomp $line;
	my ($kind, $rest) = (substr($line, 0, 1), substr($line, 1));
	return $rest if $kind eq '+' || $kind eq ':';
	die "Redis: $rest\n" if $kind eq '-';
	return undef if $rest == -1;
	if ($kind eq '$')
	{
		my $value = '';
		read($socket, $value, $rest + 2) == $rest + 2 or die 'short read from Redis';
		return substr($value, 0, $rest);
	}
	return [ map { $self->reply } 1 .. $rest ];
}

# All entries of a stream in order, each a reference to a hash of its fields, the stream's own id as _entry.
sub entries
{
	my ($self, $stream) = @_;
	my (@entries, $from);
	$from = '-';
	while (1)
	{
		my $chunk = $self->command('XRANGE', $stream, $from, '+', 'COUNT', 5000);
		last unless @$chunk;
		push @entries, { _entry => $_->[0], @{ $_->[1] } } foreach @$chunk;
		$from = '(' . $chunk->[-1][0];
	}
	return \@entries;
}

# One field of all entries of a big stream, gathered on the server, $count entries at a time; values must hold no line break.
sub column
{
	my ($self, $stream, $field, $count) = @_;
	my $lua = q{
		local chunk = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[3])
		local out = {}
		for i, entry in ipairs(chunk) do
			local fields = entry[2]
			for j = 1, #fields, 2 do
				if fields[j] == ARGV[2] then out[#out + 1] = fields[j + 1] end
			end
		end
		return {#chunk > 0 and chunk[#chunk][1] or '', table.concat(out, '\n')}};
	my (@values, $from);
	$from = '-';
	while (1)
	{
		my ($last, $joined) = @{ $self->command('EVAL', $lua, 1, $stream, $from, $field, $count // 20000) };
		last if $last eq '';
		push @values, split /\n/, $joined;
		$from = "($last";
	}
	return \@values;
}

sub keys_like { my ($self, $pattern) = @_; return sort @{ $self->command('KEYS', $pattern) } }
# How many there have ever been.
sub connections { my ($self) = @_; return ($self->command('INFO', 'stats') =~ /total_connections_received:(\d+)/)[0] }
sub xlen { my ($self, $stream) = @_; return $self->command('XLEN', $stream) }

END
{
	my $status = $?;
	foreach my $redis (@all)
	{
		eval { $redis->kill9 };
		system 'rm', '-rf', $redis->{dir};
	}
	$? = $status;
}

1;
