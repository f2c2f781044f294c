# The pages of the reference say what the server says: functions, views and settings, each with its COMMENT.
# matrix: R91
use strict;
use warnings;

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
done_testing();
