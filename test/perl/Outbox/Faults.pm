# Fault points (src/base/fault_point.h) from the tests' side. use Outbox::Faults before the server is started: servers,
# workers and sink processes find the directory in their environment.
package Outbox::Faults;

use strict;
use warnings;

use File::Temp ();
use Time::HiRes qw(sleep time);

my $dir;

BEGIN
{
	$dir = File::Temp::tempdir('outbox-faults.XXXXXX', TMPDIR => 1, CLEANUP => 1);
	chmod 0777, $dir;
	$ENV{OUTBOX_FAULT_DIR} = $dir;
}

# All points in the sources, name => file.
sub all_points
{
	my %points;
	foreach my $file (glob "$ENV{OUTBOX_TOP}/src/*/*.cpp $ENV{OUTBOX_TOP}/src/*/*/*.cpp")
	{
		open my $source, '<', $file or die "$file: $!";
		local $/ = undef;
		my $text = <$source>;
		$points{$1} = $file while $text =~ /OUTBOX_FAULT_(?:POINT|FAILS|THROW)\("([^"]+)"\)/g;
	}
	return \%points;
}

# "kill", "fail", "wait", "exit 1 3" ...: see the header. The file appears at once, so that no process reads half of it.
sub arm
{
	my ($name, $action) = @_;
	put($name, $action);
	return;
}

sub put
{
	my ($name, $text) = @_;
	open my $file, '>', "$dir/.new" or die "$dir/.new: $!";
	print $file "$text\n";
	close $file;
	chmod 0666, "$dir/.new";
	rename "$dir/.new", "$dir/$name" or die "$dir/$name: $!";
	return;
}

sub disarm { my ($name) = @_; unlink "$dir/$name"; return }

# Lets a process that waits at the point go on.
sub release { my ($name) = @_; disarm($name); unlink "$dir/$name.waiting"; return }

# The same, as far as its next pass.
sub let_pass { my ($name) = @_; arm($name, 'wait'); unlink "$dir/$name.waiting"; return }

sub waiting { my ($name) = @_; return -e "$dir/$name.waiting" }
sub armed { my ($name) = @_; return -e "$dir/$name" }
sub reached { my ($name) = @_; return -e "$dir/$name.reached" }

# How often an action was taken at the point since forget().
sub hits
{
	my ($name) = @_;
	open my $file, '<', "$dir/hits" or return 0;
	return scalar grep { /^\Q$name\E / } <$file>;
}

# Until a process waits at the point.
sub await_waiting
{
	my ($name, $seconds) = @_;
	my $deadline = time + ($seconds // 30);
	while (time < $deadline)
	{
		return 1 if waiting($name);
		sleep 0.005;
	}
	return 0;
}

# Microseconds by which every reading of the wall clock is off in the test build, and believed at once; with held => 1 as
# in real life (src/pg/wall.h), with held => SECONDS after so long.
sub shift_clock
{
	my ($micros, %options) = @_;
	my $held = $options{held} // 0;
	put('clock.believe_sooner', (300 - ($held == 1 ? 300 : $held)) * 1_000_000);
	put('clock.shift', $micros);
	return;
}

sub poison { my ($text, $action) = @_; put('poison', ($action // 'kill') . " $text"); return }

1;
