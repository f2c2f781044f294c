# The Grafana board: its file is one that Grafana takes, and every query of it says something of a real Prometheus under load, with its
# variables put in as Grafana does: all, one, several, and a name that is a regular expression by accident.
# matrix: M6
use strict;
use warnings;

use IPC::Run;
use JSON::PP ();
use Outbox::Monitoring;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{OUTBOX_TOP};
my $board = JSON::PP->new->decode(slurp_file("$top/monitoring/grafana/outbox.json"));
my @panels = @{ $board->{panels} };
my @drawn = grep { $_->{type} ne 'row' } @panels;

# --- the file ---
is($board->{schemaVersion}, 42, 'the schema of Grafana 12 and 13');
my %ids;
is(join(' ', grep { $ids{$_}++ } map { $_->{id} } @panels), '', 'no id is there twice');
my (%taken, @over);
foreach my $panel (@panels)
{
	my ($x, $y, $w, $h) = @{ $panel->{gridPos} }{qw(x y w h)};
	push @over, $panel->{title} if $x + $w > 24;
	foreach my $column ($x .. $x + $w - 1) { foreach my $line ($y .. $y + $h - 1) { push @over, $panel->{title} if $taken{"$column $line"}++ } }
}
is("@over", '', 'no panel lies over another one or beyond the edge');
is(join(', ', grep { my $panel = $_; grep { $_->{datasource}{uid} ne '${datasource}' } $panel, @{ $panel->{targets} } } @drawn), '', 'all ask the data source that was chosen');
is(join(', ', map { $_->{title} } grep { ($_->{description} // '') eq '' } @drawn), '', 'each says what it shows');

# --- load, with trouble of every kind that a panel is about ---
my $node = new_node();
my $redis = Outbox::Redis->start;
my $odd = 'invoices (eu) 1.5$';
redis_route($node, $redis, 'orders', aggregate_types => q('{order,bad}'), topic => q('{aggregate_type}'));
$node->safe_psql('postgres', "SELECT outbox.create_route('$odd', server => 'orders', aggregate_types => '{big}', topic => 'big', on_failure => 'block')");
$node->safe_psql('postgres', q(ALTER DATABASE postgres SET outbox.max_payload_size = '2MB'; CREATE ROLE monitor LOGIN IN ROLE pg_monitor));
$redis->command('SET', 'bad', 'not a stream');
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', 1024 * 1024);
$node->safe_psql('postgres', q{SELECT outbox.emit_text('big', 'k', 'huge', repeat('x', 1024 * 1024 + 100));
	SELECT count(outbox.emit_text('big', 'k', 'counted', 'k ' || i)) FROM generate_series(1, 20) i;
	SELECT count(outbox.emit_text('bad', i::text, 'counted', i::text)) FROM generate_series(1, 20) i;
	SELECT outbox.emit_text('order', 'later', 'counted', 'x', deliver_at => now() + interval '1 day');});
my %names = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', 'SELECT DISTINCT name FROM outbox.metrics()');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.dead_letter), '1', 60), 'a dead letter');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.metrics() WHERE name = 'outbox_topic_trouble'), '1', 60), 'a topic in trouble');
$names{$_} = 1 foreach split /\n/, $node->safe_psql('postgres', 'SELECT DISTINCT name FROM outbox.metrics()');
my %used = map { $_ => 1 } map { map { $_->{expr} =~ /\b(outbox_\w+)\{/g } @{ $_->{targets} } } @drawn;
is(join(' ', grep { !$names{$_} && $_ !~ /_bucket$/ } sort keys %used), '', 'its queries use names that there are');

# --- Prometheus ---
SKIP:
{
	my $missing = Outbox::Monitoring::missing();
	skip "not here: $missing", 1 if $missing ne '';
	my $monitoring = Outbox::Monitoring->start($node);
	my $said = '';
	my $check = sub
	{
		my (@names) = @_;
		$node->safe_psql('postgres', q{SELECT count(outbox.emit_text('order', i::text, 'counted', repeat('x', 100))) FROM generate_series(1, 20) i});
		return IPC::Run::run([ 'python3', "$top/scripts/board", 'check', $monitoring->url, '--minutes', 2, '--scrape', 1, @names ], '<', \undef, '>&', \$said);
	};
	my %largest;
	my $read = sub { %largest = $said =~ /^ok\t(.*?)\t.*at most (\S+)$/mg; return };
	my $has = wait_until(sub { $check->(); return $said =~ /^ok\t\$database/m }, 30);
	ok($has, 'Prometheus has figures') or diag($monitoring->said) or skip 'no figures', 1;
	ok(wait_until(sub { $check->() }, 60), 'no query is empty') or diag($said, $monitoring->said);
	$read->();
	is(scalar keys %largest, scalar(map { @{ $_->{targets} } } @drawn), 'each was asked');
	# In the middle of trouble is more than not empty.
	$node->safe_psql('postgres', q{SELECT outbox.emit_text('big', 'l', 'huge', repeat('x', 1024 * 1024 + 100))});
	ok(wait_until(sub { $check->(); $read->(); return ($largest{'Refused, by class A'} // 0) > 0 && ($largest{'Events per second A'} // 0) > 0 && ($largest{'Events per second B'} // 0) > 0 }, 60), 'events flow') or diag($said);
	cmp_ok($largest{$_} // 0, '>', 0, $_)
	  foreach 'Oldest event waits A', 'Waiting A', 'Dead letters A', 'Refused, by class A', 'From commit to acknowledgement A', 'Quantiles: all of it, and the destination\'s part D',
	  'Waiting, by route A', 'Oldest, by route A', 'Parked, by state A', 'Parked, by reason A', 'Topics in trouble A', 'Topics that have left their lane, by route A', 'The log, by day (UTC) A', 'On disk A',
	  'Bytes per second B';
	is($largest{'Parked, by state A'}, 20, 'as many are blocked as wait behind the dead letter');
	is($largest{$_}, 0, $_) foreach 'Workers missing A', 'Publishes nothing A';
	my ($offered) = $said =~ /^ok\t\$route\t(.*)$/m;
	is($offered, "$odd, orders", 'the variable offers the routes');
	ok($check->('--route', 'orders', '--route', $odd, '--database', 'postgres'), 'none is empty with both routes chosen by name') or diag($said);
	ok(wait_for_value($node, q(SELECT count(*) FROM outbox.dead_letter), '2', 60), 'two dead letters');
	ok(wait_until(sub { $check->('--route', $odd); $read->(); return ($largest{'Dead letters A'} // 0) == 2 }, 60), 'one route, whose name is not taken for a pattern') or diag($said);
	ok(!exists $largest{'Topics in trouble A'}, 'and what is not of it is left out');
	ok(!$check->('--route', 'no such route'), 'a query that says nothing is an error');

	# --- the picture ---
	my $file = $node->basedir . '/board.svg';
	ok(IPC::Run::run([ 'python3', "$top/scripts/board", 'draw', $monitoring->url, $file, '--minutes', 2, '--scrape', 1 ], '<', \undef, '>&', \$said), 'it is drawn') or diag($said);
	my $svg = slurp_file($file);
	is(join(', ', grep { index($svg, '>' . ($_ =~ s/&/&amp;/gr =~ s/'/&#x27;/gr) . '<') < 0 } map { $_->{title} } @panels), '', 'with every panel');
	unlike($svg, qr/No data/, 'none of them without data');
	ok(IPC::Run::run([ 'python3', '-c', 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])', $file ], '>&', \$said), 'as XML') or diag($said);
	$monitoring->stop;
}

# --- each label is one that the exporter passes on: else it would have a sample twice, and give none at all ---
my ($passed) = slurp_file("$top/monitoring/sql_exporter.yml") =~ /labels: \[(.*?)\]/s;
my %passed = map { $_ => 1 } split /,\s*/, $passed;
my $locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE outbox_internal.parked, outbox_internal.side_topic, outbox.pause');
my @labels = split /\n/, $node->safe_psql('postgres', 'SELECT DISTINCT jsonb_object_keys(labels) FROM outbox.metrics() ORDER BY 1');
$locker->query_safe('ROLLBACK');
$locker->quit;
is(join(' ', grep { !$passed{$_} } @labels), '', 'the exporter passes each label on, while tables are locked too');

# --- a backlog that grows while its destination is away, after all that there was has been read ---
$node->safe_psql('postgres', q{SELECT outbox.create_route('again', server => 'orders', aggregate_types => '{order}', topic => 'again')});
$node->safe_psql('postgres', q{SELECT outbox.emit_text('order', 'k', 'counted', 'first')});
ok(wait_until(sub { $redis->xlen('again') == 1 }, 60), 'all is read');
$redis->stop;
sub figure { my ($name, $more) = @_; return "FROM outbox.metrics() WHERE name = 'outbox_$name' AND labels \@> '$more'" }
$node->safe_psql('postgres', q{SELECT outbox.emit_text('order', 'k', 'counted', 'second')});
ok(wait_for_value($node, 'SELECT value ' . figure('destination_state', '{"destination": "orders", "outbox_destination_state": "closed"}'), '0', 60), 'a destination is away');
$node->safe_psql('postgres', q{SELECT count(outbox.emit_text('order', i::text, 'counted', 'x')) FROM generate_series(1, 50) i}) foreach 1 .. 20;
ok(wait_for_value($node, 'SELECT value BETWEEN 500 AND 3000 ' . figure('pending_events', '{"route": "again"}'), 't', 30), 'what is committed meanwhile is waiting');
no_server_crashed($node);
done_testing();
