# Every SQL block of every page runs as it stands, each page in a database of its own, top to bottom, and prints what the page
# says that it prints. How a page says so (CONTRIBUTING.md, "The pages"):
#   ```output after a block      what psql prints for it, but for empty lines; ... stands for any text, on a line of its own for any lines
#   <!-- before: SQL -->         runs before the page's first block, for what the reader has and the test has not
#   <!-- not run: why -->        before a block that cannot be
# A block of one statement with $1 in it is prepared. :'id' and :'another' are ids of events of now, as consumers get them.
# matrix: R90
use strict;
use warnings;

use IPC::Run ();
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

# Pages whose blocks another test runs, in situations that it makes for them.
my %elsewhere = ('docs/when-things-go-wrong.md' => 'test/t/101_page_when_things_go_wrong.pl', 'docs/managed-servers.md' => 'test/t/252_managed_servers.pl',
	'docs/kafka-is-down.md' => 'test/t/257_kafka_is_down.pl', 'docs/from-debezium.md' => 'test/t/281_from_debezium.pl');

my $top = $ENV{OUTBOX_TOP};
my $node = new_node(extension => 0, conf => "outbox.workers = 1\nmax_worker_processes = 16\noutbox.lone_emit = warn\noutbox.test_new_routes = on\n");
$node->safe_psql('postgres', 'CREATE ROLE app; CREATE ROLE oncall');

# What the output of a page allows, as a pattern.
sub pattern_of
{
	my ($output) = @_;
	my @lines = grep { /\S/ } split /\n/, $output;
	s/\s+$// foreach @lines;
	return join '', map { $_ eq '...' ? '(?:.*\n)*?' : join('.*', map { quotemeta } split /\.\.\./, $_, -1) . '\n' } @lines;
}

my %id = map { $_->[0] => sprintf('%s-%s-7000-8000-%012d', sprintf('%012x', time * 1000) =~ /^(.{8})(.{4})$/, $_->[1]) } [ id => 1 ], [ another => 2 ];

sub run_block
{
	my ($database, $sql) = @_;
	$sql = "PREPARE of_the_page AS $sql" if $sql =~ /\$\d/ && $sql !~ /\$\$/;
	my $said = '';
	IPC::Run::run([ 'psql', '-Xq', (map { ('-v', "$_=$id{$_}") } keys %id), '-h', $node->host, '-p', $node->port, '-d', $database, '-U', 'postgres' ], '<', \$sql, '>&', \$said);
	$said =~ s/[ \t]+$//mg;
	return $said =~ s/\n+/\n/gr;
}

sub page
{
	my ($page) = @_;
	my $text = slurp_file("$top/$page");
	unlike($text =~ s/^( *)```.*?^\1```//msgr, qr/^ {4,}(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|CALL|BEGIN|WITH|SET)\b/m, "$page: no SQL that this test does not see");
	return if $text !~ /^ *```(?:sql|psql|postgresql)$/m;
	if (my $by = $elsewhere{$page})
	{
		like(slurp_file("$top/$by"), qr/\Q$page\E/, "$page: $by runs it");
		return;
	}
	(my $database = $page) =~ s/\W/_/g;
	$node->safe_psql('postgres', "CREATE DATABASE \"$database\"");
	$node->safe_psql($database, 'CREATE EXTENSION outbox') if $page !~ /README|tutorial/;
	while ($text =~ /<!-- before: (.*?)-->/gs) { my $said = run_block($database, $1); unlike($said, qr/^ERROR/m, "$page: what it begins with") or diag($said) }
	my $count = 0;
	while ($text =~ /^( *)```(?:sql|psql|postgresql)\n(.*?)^\1```\n(?:\s*^\1```output\n(.*?)^\1```\n)?/msg)
	{
		my ($sql, $output, $before) = ($2, $3, substr($text, 0, $-[0]));
		my ($title) = $sql =~ /^ *(\S.*)$/m;
		if ($before =~ /<!-- not run: ([^>]+?) -->\s*$/) { note("$page: not run: $title: $1"); next }
		my $said = run_block($database, $sql);
		$count++;
		if (defined $output)
		{
			my $pattern = pattern_of($output);
			like($said, qr/\A(?:$pattern)\z/, "$page: $title") or next;
		}
		else { unlike($said, qr/^(?:ERROR|FATAL|WARNING|psql: |invalid command)/m, "$page: $title") or diag($said) }
	}
	return $count;
}

# What needs a worker first, with all that a reader is told; nothing else has one, for the pages name brokers that are not this test's.
ok(page('docs/tutorial.md'), 'the first hour');
$node->append_conf('postgresql.conf', "outbox.enabled = off\noutbox.lone_emit = allow\noutbox.test_new_routes = off\n");
$node->reload;
ok(wait_for_value($node, 'SHOW outbox.enabled', 'off'), 'no more worker sends');
page($_) foreach grep { $_ ne 'docs/tutorial.md' } map { s{^\Q$top\E/}{}r } sort(glob "$top/*.md $top/docs/*.md");
no_server_crashed($node);
done_testing();
