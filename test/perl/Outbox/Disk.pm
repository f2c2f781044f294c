# A small file system that tests may fill to the last byte: scripts/test mounts it where it runs as root. Tests put what
# they want to run out of space into a directory of it.
package Outbox::Disk;

use strict;
use warnings;

use Fcntl qw(:flock);
use Test::More;

my $disk = $ENV{OUTBOX_SMALL_DISK};
my (@made, $lock);

sub available { return defined $disk }

# The whole file is skipped where there is none.
sub skip_without
{
	plan(skip_all => 'no small file system to fill: not run as root, or no mount namespaces') if !available();
	return;
}

# A new directory there; it goes with the test. Use this module before Outbox::Test: servers have ended by then. One test
# at a time has the disk; others wait for it here.
sub directory
{
	my ($name) = @_;
	if (!$lock)
	{
		open $lock, '>', "$disk/lock" or die "$disk/lock: $!";
		flock $lock, LOCK_EX or die "$disk/lock: $!";
	}
	mkdir "$disk/$name" or die "$disk/$name: $!";
	push @made, "$disk/$name";
	return "$disk/$name";
}

# Takes all that is left.
sub fill
{
	open my $file, '>>', "$disk/filler" or die "$disk/filler: $!";
	my $block = "\0" x 65536;
	my $written;
	1 while defined($written = syswrite $file, $block);
	die "$disk/filler: $!" if !$!{ENOSPC};
	close $file;
	return;
}

# Gives it back.
sub free { unlink "$disk/filler"; return }

END
{
	my $status = $?;
	free() if available();
	system 'rm', '-rf', @made if @made;
	$? = $status;
}

1;
