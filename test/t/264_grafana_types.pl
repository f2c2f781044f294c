# The Grafana board, compiled against the types that Grafana publishes: each field is one that there is, each word one that means
# something. And the same board with a word that means nothing, one field too many, one too few.
# matrix: M6
# ring: long
use strict;
use warnings;

use IPC::Run;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{OUTBOX_TOP};
my $board = slurp_file("$top/monitoring/grafana/outbox.json");
my $said = '';
sub types { my (@file) = @_; $said = ''; IPC::Run::run([ 'python3', "$top/scripts/board", 'types', @file ], '<', \undef, '>&', \$said); return $? >> 8 }
my $status = types();
plan skip_all => "npm or its registry is not here: $said" if $status == 2;
is($status, 0, 'it is what Grafana takes') or diag($said);
my $file = PostgreSQL::Test::Utils::tempdir() . '/board.json';
foreach my $case ([ 'a word that means nothing', qr/"colorMode": "background"/, '"colorMode": "backgruond"' ], [ 'a field that there is not', qr/"schemaVersion"/, '"schemaVersoin": 1, "schemaVersion"' ],
	[ 'a field that is missing', qr/"showHeader": true,/, '' ])
{
	my ($what, $from, $to) = @$case;
	my $broken = $board =~ s/$from/$to/r;
	isnt($broken, $board, "$what: put in");
	append_to_file($file, '') if !-e $file;
	open my $out, '>', $file or die $!;
	print $out $broken;
	close $out;
	is(types($file), 1, "$what: found") or diag($said);
}
done_testing();
