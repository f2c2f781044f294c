# The pages of the reference say what the server says: functions, views and settings, each with its COMMENT.
# matrix: R91
use strict;
use warnings;

use IPC::Run ();
use Outbox::Reference;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 0\n");
my $pages = Outbox::Reference::pages(sub { return $node->safe_psql('postgres', $_[0]) });
foreach my $page (sort keys %$pages)
{
	my @is = split /\n/, slurp_file("$ENV{OUTBOX_TOP}/$page");
	my @wanted = split /\n/, $pages->{$page};
	my $at = 0;
	$at++ while $at < @is && $at < @wanted && $is[$at] eq $wanted[$at];
	ok($at == @is && $at == @wanted, "$page is what the server says")
	  or diag("run scripts/reference. Line @{[$at + 1]} is\n  @{[$is[$at] // 'the end']}\nand should be\n  @{[$wanted[$at] // 'the end']}");
	unlike($pages->{$page}, qr/\|  \|$/m, 'and each line says something');
}
like($pages->{'docs/functions.md'}, qr/^### $_$/m, "$_ is there") foreach qw(emit create_route status redrive doctor);
like($pages->{'docs/views.md'}, qr/^### $_$/m, "$_ is there") foreach qw(lag destination dead_letter);
is(scalar(() = $pages->{'docs/settings.md'} =~ /^\| `outbox\./mg), $node->safe_psql('postgres', q{SELECT count(*) FROM pg_settings WHERE name LIKE 'outbox.%'}), 'and every setting');

# A server to try things on is not started over one that runs, nor in the place of what somebody else put there.
my $dir = PostgreSQL::Test::Utils::tempdir();
mkdir "$dir/$_" or die foreach qw(made others);
symlink $node->data_dir, "$dir/made/data" or die;
append_to_file("$dir/made/made-by-dev-server", '');
append_to_file("$dir/others/letter", 'kept');
sub dev_server { my $ok = IPC::Run::run([ "$ENV{OUTBOX_TOP}/scripts/dev-server", @_ ], '<', \undef, '>&', \my $said); return $ok ? 'done' : $said }
like(dev_server('start', "$dir/made"), qr/^error: a server runs in .*: scripts\/dev-server stop .* ends it/m, 'it starts none over one that runs');
like(dev_server($_, "$dir/others"), qr/^error: .* was not made by scripts\/dev-server/m, "$_: it touches nobody else's directory") foreach qw(start stop);
is(slurp_file("$dir/others/letter"), 'kept', 'what is there stays');
is($node->safe_psql('postgres', 'SELECT 1'), 1, 'the server runs');
done_testing();
