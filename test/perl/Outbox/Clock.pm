# A server whose wall clock the test sets (test/clock/shim.c), and how soon a jump of it is believed.
package Outbox::Clock;

use strict;
use warnings;

use File::Basename qw(dirname);
use Outbox::Faults;
use Test::More;

my $source = dirname(__FILE__) . '/../../clock/shim.c';
my $file;
my $shim;

# Before the node is made. Without a compiler the test is skipped.
sub prepare
{
	my ($dir) = @_;
	$shim = "$dir/shim.so";
	$file = "$dir/shift";
	system('cc', '-shared', '-fPIC', '-O1', '-o', $shim, $source, '-ldl') == 0
	  or plan skip_all => 'no C compiler';
	set(0);
	return;
}

# Runs what starts a server, so that it has the clock.
sub with
{
	my ($work) = @_;
	local $ENV{LD_PRELOAD} = $shim;
	local $ENV{CLOCK_SHIM_FILE} = $file;
	return $work->();
}

# Seconds that the wall clock is off from now on.
sub set
{
	my ($seconds) = @_;
	open my $out, '>', "$file.new" or die "$file.new: $!";
	print $out int($seconds * 1_000_000);
	close $out;
	chmod 0644, "$file.new";
	rename "$file.new", $file or die "$file: $!";
	return;
}

# Seconds after which a jump is believed; real life has 300.
sub believe_after { Outbox::Faults::put('clock.believe_sooner', (300 - $_[0]) * 1_000_000); return }

1;
