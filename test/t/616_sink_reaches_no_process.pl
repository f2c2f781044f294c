# matrix: F8
# A sink process that an attacker has taken over does nothing to another process of the same user: not by signals of any kind, not by its
# limits, its priorities and processors, its memory, a terminal, or what processes share. So on a kernel that has landlock, and on one that
# has not. What it does with itself, as libraries do, it may.
use strict;
use warnings;

use File::Temp ();
use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $dir = File::Temp::tempdir('outbox-escape.XXXXXX', TMPDIR => 1, CLEANUP => 1);
append_to_file("$dir/file", 'of somebody');
# A process of the server's user, in a process group of its own: what a group is done to meets it alone.
my $victim = fork // die "fork: $!";
if ($victim == 0)
{
	setpgrp;
	exec 'sleep', '3600' or die "sleep: $!";
}
END { kill 'KILL', $victim if $victim }
ok(wait_until(sub { slurp_file("/proc/$victim/comm") =~ /^sleep/ }), 'there is another process');

sub state
{
	my $stat = eval { slurp_file("/proc/$victim/stat") } // return 'gone';
	my @fields = split / /, $stat =~ s/.*\) //rs;
	my ($size) = slurp_file("/proc/$victim/limits") =~ /^Max file size +(.*?) +bytes/m;
	my ($processors) = slurp_file("/proc/$victim/status") =~ /^Cpus_allowed_list:\s+(.*)$/m;
	return $fields[0] eq 'Z' ? 'gone' : "file size $size, nice $fields[16], policy $fields[38], processors $processors";
}
my $before = state();
Outbox::Faults::put('escape', "$dir/file\nprocess $victim");

# The word of each try => what came of it.
sub tried { my ($text) = @_; return { $text =~ /(\S+) (done|refused|[A-Z][a-z ]+?)(?= \S+ (?:done|refused|[A-Z])|$)/g } }

my $results = "$ENV{OUTBOX_FAULT_DIR}/escape.result";
foreach my $round ('as it is', 'without landlock')
{
	Outbox::Faults::put('sink.without_landlock', 1) if $round eq 'without landlock';
	(my $name = $round) =~ s/ /_/g;
	$node->safe_psql('postgres', "CREATE SERVER $name FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('$name', server => '$name')");
	emit_counted($node, $name, ['k'], 1, 3);
	ok(wait_idle($node), "$round: events go out");
	my ($line) = grep { $round eq 'as it is' or !/^[^:]*landlock/ } -e $results ? reverse split /\n/, slurp_file($results) : ();
	like($line // '', qr/ process:.* file:.* itself:/, '... and the process tried to break out') or next;
	my ($have, $process, $itself) = $line =~ /^(.*?):.* process: (.*) file: .* itself: (.*) environment \w+$/;
	diag("$round: $have");
	my ($did, $own) = (tried($process), tried($itself));
	cmp_ok(scalar keys %$did, '>', 30, '... in many ways');
	# The kernel's own answer: without landlock its files in /proc are open to the same user.
	my $environment = delete $did->{environment};
	is($environment, 'refused', '... not reading its environment') if $have =~ /landlock/;
  SKIP:
	{
		skip "this kernel has no seccomp for a sink process ($have)", 2 if $have !~ /seccomp/;
		is(join(', ', map { "$_ $did->{$_}" } grep { $did->{$_} ne 'refused' } sort keys %$did), '', '... all of them refused');
		is(state(), $before, '... and the other process is as it was');
	}
	is(join(', ', map { "$_ $own->{$_}" } grep { $own->{$_} ne 'done' } sort keys %$own), '', '... what it does with itself is not');
	cmp_ok(scalar keys %$own, '>', 5, '... in each way');
}
no_server_crashed($node);
done_testing();
