# What the scripts of the Debian package say, in a tree of clusters: of those that are told to load outbox, whatever way their files
# say it, of those that run with the files that were there before, and of no others; after a removal, what was added before is not to be added again.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use Outbox::Test;

my $tree = PostgreSQL::Test::Utils::tempdir();
my $server = `pg_config --bindir` =~ s/\n//r . '/postgres';
system('mkdir', '-p', "$tree/run") == 0 or die 'mkdir';

# A cluster with these lines in postgresql.conf, after one that says where its data is.
sub cluster
{
	my ($name, $lines, $data_directory) = @_;
	system('mkdir', '-p', "$tree/etc/15/$name/conf.d", "$tree/data/$name") == 0 or die 'mkdir';
	append_to_file("$tree/etc/15/$name/postgresql.conf", ($data_directory // 'data_directory = ') . "'$tree/data/$name'\ninclude_dir = 'conf.d'\n$lines\n");
	append_to_file("$tree/data/$name/postgresql.auto.conf", '');
	return;
}

sub said
{
	my ($script, @arguments) = @_;
	my $text = slurp_file("$ENV{OUTBOX_TOP}/debian/$script.in");
	my $asked = slurp_file("$ENV{OUTBOX_TOP}/packaging/preloads.sh");
	$text =~ s/^\@PRELOADS\@\n/$asked/m or die "$script asks nobody";
	$text =~ s/\@PGVERSION\@/15/g;
	$text =~ s,/usr/lib/postgresql/15/bin/postgres,$server,g;
	$text =~ s,/etc/postgresql,$tree/etc,g;
	$text =~ s,/var/run/postgresql,$tree/run,g;
	unlink "$tree/script";
	append_to_file("$tree/script", $text);
	my $out = join ' ', map { "'$_'" } @arguments;
	$out = `sh '$tree/script' $out 2>&1`;
	is($?, 0, "$script @arguments") or diag($out);
	return $out;
}
sub told_of_removal { return join ' ', said('prerm', 'remove') =~ /cluster 15-(\S+) has outbox in shared_preload_libraries/g }

my $loads = "shared_preload_libraries = 'outbox'";
cluster($_, "#$loads") foreach qw(killed with without since stopped);

# Stand in for servers: one that was there before the package's files, one that was started since, one that has none of them; and
# what a server leaves that was killed.
my $ended = fork // die 'fork';
exit 0 if $ended == 0;
waitpid $ended, 0;
append_to_file("$tree/run/15-killed.pid", "$ended\n");
my %pid;
sub runs
{
	my ($name, $program) = @_;
	my $pid = fork // die 'fork';
	exec $program, 60 or die $program if $pid == 0;
	append_to_file("$tree/run/15-$name.pid", "$pid\n");
	$pid{$name} = $pid;
	return wait_until(sub { slurp_file("/proc/$pid/cmdline") =~ /^\Q$program\E\0/ }) || die "$name does not run";
}
END { kill 'KILL', values %pid }
my $library = "$tree/outbox.so";
sub unpack_library { system("cp /bin/sleep '$library.new' && mv '$library.new' '$library'") == 0 or die 'cp' }
unpack_library();
runs('with', $library);
unpack_library();
runs('since', $library);
runs('without', '/bin/sleep');

like(said('postinst', 'configure', ''), qr/^outbox: add it to shared_preload_libraries of a PostgreSQL 15 server, .* CREATE EXTENSION outbox$/m, 'the first time: what to do');
unlike(said('postinst', 'configure', '0.1-1'), qr/add it to/, 'an upgrade, and nobody loads it');
is(said('prerm', 'remove'), '', 'nor is anybody told that it goes');
append_to_file("$tree/etc/15/$_/postgresql.conf", "shared_preload_libraries = 'auto_explain, outbox'\n") foreach qw(killed with since stopped);
foreach my $before ('0.1-1', '')
{
	my $lines = said('postinst', 'configure', $before);
	is(join(' ', $lines =~ /cluster (\S+) goes on with the files it loaded/g), '15-with', 'the one that has the old files goes on with them');
	unlike($lines, qr/add it to/, 'and nothing is to be added');
}
is(told_of_removal(), 'killed since stopped with', 'a removal is told of to all that load it');
like(said('prerm', 'remove'), qr/emit\(\),.* DROP EXTENSION fail in new sessions/, 'and what fails until then');
is(said('prerm', 'upgrade', '0.2-1'), '', 'an upgrade is no removal');

# The ways to say it. What begins with "not" does not load it.
my ($tools, $none) = map { "shared_preload_libraries = '$_'" } 'my_outbox_tools', '';
system('rm', '-r', "$tree/etc/15") == 0 or die 'rm';
cluster('auto', $none);
append_to_file("$tree/data/auto/postgresql.auto.conf", $loads);
cluster('confd', '');
append_to_file("$tree/etc/15/confd/conf.d/my.conf", $loads);
cluster('hash', "shared_preload_libraries = 'a#b, outbox'");
cluster('included', "include 'site'");
append_to_file("$tree/etc/15/included/site", $loads);
cluster('no_equals', "shared_preload_libraries 'outbox'");
cluster('not_comment', "shared_preload_libraries = 'auto_explain' # , outbox");
cluster('not_confd', '');
append_to_file("$tree/etc/15/not_confd/conf.d/my.conf.bak", $loads);
cluster('not_other', $tools);
cluster('not_overruled', $loads);
append_to_file("$tree/data/not_overruled/postgresql.auto.conf", $none);
cluster('not_later', "$loads\n$tools");
cluster('path', q(shared_preload_libraries = 'auto_explain, "$libdir/outbox"'));
cluster('tabbed', '', "data_directory\t=\t");
append_to_file("$tree/data/tabbed/postgresql.auto.conf", $loads);
cluster('without_equals', '', 'data_directory ');
append_to_file("$tree/data/without_equals/postgresql.auto.conf", $loads);
cluster('wrong', "$loads\nno_such_setting = on");
is(told_of_removal(), 'auto confd hash included no_equals path tabbed without_equals wrong', 'as the server itself reads its files');
done_testing();
