# What PostgreSQL raises in our functions, in its own words or with a hint of ours, is on docs/errors.md: the SQLSTATE has a section, and
# message and hint are in it.
use strict;
use warnings;

use FindBin;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $page = slurp_file("$FindBin::Bin/../../docs/errors.md") =~ s/\\([_*|])/$1/gr;
my $node = new_node(conf => "outbox.workers = 0\n");
sub told
{
	my ($call, $state, $what) = @_;
	my (undef, undef, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\n$call");
	my ($code, $message) = $error =~ /ERROR:  (\w{5}): ([^\n]*)/ or return fail("$what: $error");
	my ($hint) = $error =~ /^HINT:  ([^\n]*)/m;
	is($code, $state, "$what: $message");
	my ($section) = $page =~ /^### $code\n(.*?)(?=^##|\z)/ms;
	my @rows = map { [ map { quotemeta($_) =~ s/(?:\\\.){3}/.*/gr } /^\| (.*?) \| (.*?) ?\|$/ ] } grep { /^\| / } split /\n/, $section // '';
	ok(scalar(grep { $message =~ /^$_->[0]$/ && ($hint // '') =~ /^$_->[1]$/ } @rows), '... is on the page, with its hint') or diag($hint // 'no hint');
	return;
}
told(q{SELECT outbox.emit('a'::varchar, 1, 'e'::varchar, (repeat('[', 100000) || repeat(']', 100000))::text)}, '54001', 'nested too deeply');
told(q{SELECT outbox.emit('a'::varchar, 1, 'e'::varchar, 'no JSON'::text)}, '22P02', 'no JSON');
told(q{BEGIN READ ONLY; SELECT outbox.receive('c', gen_random_uuid())}, '25006', 'receiving in a transaction that only reads');
told(q{BEGIN READ ONLY; SELECT outbox.emit('a', 1, 'e', '{}')}, '25006', 'emitting in one');
$node->stop;
done_testing();
