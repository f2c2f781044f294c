# A day of the log whose file is not there, or is empty, or whose index cannot be read: what waits in it is unknown, to outbox.lag
# and to outbox.day, and not none. A lane that has read all of it is not concerned, as long as it can read on.
use strict;
use warnings;

use File::Copy qw(copy);
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'healthy', topic => q('healthy'));
$node->safe_psql('postgres', q(SELECT outbox.create_route('hurt', server => 'healthy', topic => 'hurt')));
sub sql { return $node->safe_psql('postgres', $_[0]) }
# What an answer begins with: a value, or the error.
sub answer
{
	my ($query) = @_;
	my ($out, $err) = ('', '');
	my ($status) = $node->psql('postgres', $query, stdout => \$out, stderr => \$err);
	return $status == 0 ? $out : $err =~ /(ERROR: .*)/ ? $1 : $err;
}

sql(q(SELECT outbox.pause('hurt', reason => 'to have a backlog')));
emit_counted($node, 'order', [ 'a', 'b' ], 1, 200);
ok(wait_until(sub { $redis->xlen('healthy') == 400 }, 60), 'a route has delivered what another has not');
ok(wait_for_value($node, q(SELECT pending FROM outbox.lag WHERE route = 'healthy'), '0', 20), 'and knows it');
my $table = sql(q(SELECT log_table FROM outbox.day WHERE rows > 0 ORDER BY rows DESC LIMIT 1));
my %path = map { $_ => $node->data_dir . '/' . sql("SELECT pg_relation_filepath('$_')") } $table, "${table}_xid";

my $lag = q(SELECT string_agg(concat_ws(' ', route, coalesce(pending::text, 'unknown')), ', ' ORDER BY route) FROM outbox.lag);
my $day = "SELECT concat_ws(' ', coalesce(rows::text, 'unknown'), coalesce(undelivered::text, 'unknown'), held_by LIKE "
  . "'%route \"hurt\" (not all of the day can be read)%') FROM outbox.day WHERE log_table = '$table'";
sub damaged
{
	my ($what, $relation, $damage, $unknown, $rows) = @_;
	$node->stop;
	copy($path{$relation}, "$path{$relation}.whole") or die $!;
	$damage->($path{$relation});
	$node->start;
	ok(wait_for_value($node, q(SELECT count(*) FROM outbox.worker WHERE state = 'running'), '3', 60), "$what: processes run");
	ok(wait_until(sub { answer($lag) eq $unknown }, 20), "$what: outbox.lag does not know what waits") or diag(answer($lag));
	is(answer($day), "$rows unknown t", "$what: nor does outbox.day");
	is(answer(q(SELECT value FROM outbox.metrics() WHERE name = 'outbox_figures_left_out' AND labels @> '{"part": "log"}')), '1', "$what: metrics() says so");
	$node->stop;
	rename("$path{$relation}.whole", $path{$relation}) or die $!;
	$node->start;
}
damaged('the file is not there', $table, sub { unlink $_[0] or die $! }, 'healthy 0, hurt unknown', 'unknown');
damaged('the file is empty', $table, sub { truncate($_[0], 0) or die $! }, 'healthy 0, hurt unknown', 'unknown');
my $index = sub {
	open(my $file, '+<', $_[0]) or die $!;
	for my $block (1 .. (-s $_[0]) / 8192 - 1)
	{
		seek($file, $block * 8192, 0);
		print $file 'X' x 24;    # its header
	}
	close($file);
};
damaged('the index', "${table}_xid", $index, 'healthy unknown, hurt unknown', '400');    # what is new is found by the index, too
ok(wait_until(sub { answer($lag) eq 'healthy 0, hurt 400' }, 60), 'with its files back all is counted') or diag(answer($lag));

no_server_crashed($node);
done_testing();
