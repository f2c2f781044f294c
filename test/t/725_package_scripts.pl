# What the scripts of the Debian package say, in a tree of clusters: of those that are told to load outbox, and of no others; after
# a removal, what was added before is not to be added again.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

my $tree = PostgreSQL::Test::Utils::tempdir();
system('mkdir', '-p', map { "$tree/$_" } qw(run etc/15/with etc/15/auto etc/15/without etc/15/stopped data)) == 0 or die 'mkdir';
append_to_file("$tree/etc/15/$_/postgresql.conf", "#shared_preload_libraries = 'outbox'\n") foreach qw(with auto without stopped);
append_to_file("$tree/run/15-$_.pid", "1\n") foreach qw(with auto without);

sub said
{
	my ($script, @arguments) = @_;
	my $text = slurp_file("$ENV{OUTBOX_TOP}/debian/$script.in");
	$text =~ s/\@PGVERSION\@/15/g;
	$text =~ s,/etc/postgresql,$tree/etc,g;
	$text =~ s,/var/run/postgresql,$tree/run,g;
	unlink "$tree/script";
	append_to_file("$tree/script", $text);
	my $out = join ' ', map { "'$_'" } @arguments;
	$out = `sh '$tree/script' $out 2>&1`;
	is($?, 0, "$script @arguments") or diag($out);
	return $out;
}

like(said('postinst', 'configure', ''), qr/^outbox: add it to shared_preload_libraries of a PostgreSQL 15 server, [^\n]*\n$/, 'the first time: what to do');
is(said('postinst', 'configure', '0.1-1'), '', 'an upgrade, and nobody loads it');
is(said('prerm', 'remove'), '', 'nor is anybody told that it goes');
append_to_file("$tree/etc/15/$_/postgresql.conf", "shared_preload_libraries = 'auto_explain, outbox'\n") foreach qw(with stopped);
append_to_file("$tree/etc/15/auto/postgresql.conf", "data_directory = '$tree/data'\t# where it is\n");
append_to_file("$tree/data/postgresql.auto.conf", "shared_preload_libraries = 'outbox'\n");
foreach my $before ('0.1-1', '')
{
	my $lines = said('postinst', 'configure', $before);
	is(join(' ', $lines =~ /cluster (\S+) goes on with the files it loaded/g), '15-auto 15-with', 'those that run and load it go on');
	unlike($lines, qr/add it to/, 'and nothing is to be added');
}
is(join(' ', said('prerm', 'remove') =~ /cluster (\S+) has outbox in shared_preload_libraries/g), '15-auto 15-stopped 15-with', 'a removal is told of to all that load it');
is(said('prerm', 'upgrade', '0.2-1'), '', 'an upgrade is no removal');
done_testing();
