# The files in monitoring/: alert rules by promtool, each firing and not firing; each has its section in the docs; the queries of the
# exporters run; Debian's sql_exporter scrapes, Prometheus stores, and says what outbox.metrics() says.
# matrix: M2
use strict;
use warnings;

use Cwd;
use File::Basename;
use IPC::Run;
use Outbox::Monitoring;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;


my $top = dirname(dirname(dirname(Cwd::abs_path(__FILE__))));
my $dir = "$top/monitoring";
my $rules = slurp_file("$dir/alerts.yml");
my @alerts = $rules =~ /- alert: (\w+)/g;
is(scalar @alerts, 23, 'there are twenty-three rules');
my $docs = slurp_file("$top/docs/when-things-go-wrong.md");
is(join(' ', grep { $docs !~ /^### $_$/m } @alerts), '', 'each has its section in the docs');
is(join(' ', grep { $rules !~ /when-things-go-wrong\.md#\L$_\E'/ } @alerts), '', 'and links to it');
my $tests = slurp_file("$dir/alerts_test.yml");
is(join(' ', grep { my $n = () = $tests =~ /alertname: $_\n/g; $n < 2 } @alerts), '', 'each is tested firing and not firing');

sub found { my ($program) = @_; return grep { -x "$_/$program" } split /:/, $ENV{PATH} }

SKIP:
{
	skip 'promtool is not here (Debian: prometheus)', 1 unless found('promtool');
	my ($out, $code) = ('', 0);
	IPC::Run::run([ 'promtool', 'test', 'rules', "$dir/alerts_test.yml" ], '>', \$out, '2>&1') or $code = 1;
	is($code, 0, 'promtool test rules') or diag($out);
}

my $node = new_node();
$node->safe_psql('postgres', "CREATE SERVER look FOREIGN DATA WRAPPER outbox_log; SELECT outbox.create_route('all', server => 'look')");
$node->safe_psql('postgres', q(SELECT count(outbox.emit('order', i, 'order.created', '{}')) FROM generate_series(1, 7) i));
ok(wait_idle($node), 'delivered');
$node->safe_psql('postgres', 'CREATE ROLE monitor LOGIN IN ROLE pg_monitor');

SKIP:
{
	skip 'promtool is not here (Debian: prometheus)', 1 unless found('promtool');
	my ($text, $out) = ($node->safe_psql('postgres', "SELECT outbox.metrics_text('prometheus')") . "\n", '');
	my $ok = IPC::Run::run([ 'promtool', 'check', 'metrics' ], '<', \$text, '>', \$out, '2>&1');
	ok($out !~ /error while linting|text format parsing error/, 'the older text format is read by promtool') or diag($out);
}

# What is used in a rule is a name that outbox.metrics() knows.
my %known = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', 'SELECT DISTINCT name FROM outbox.metrics()');
my %used = map { $_ => 1 } map { /\b(outbox_\w+)/g } $rules =~ /expr: (.*)/g;
is(join(' ', grep { !$known{$_} && $_ ne 'outbox_destination_state' && $_ ne 'outbox_figures_left_out' } sort keys %used), '', 'rules use names that there are');

# Every query of the files runs as a role that may only look.
foreach my $file (qw(sql_exporter.yml pgwatch.yaml otel_sqlquery.yaml))
{
	my $text = slurp_file("$dir/$file");
	my @queries = $text =~ /^ *(?:- )?(?:query|sql|15): \|\n((?: {8,}(?!metrics:).*\n)+)/mg;
	ok(@queries > 0, "$file has queries");
	foreach my $query (@queries)
	{
		my ($code, $out, $err) = $node->psql('postgres', $query, extra_params => [ '-U', 'monitor' ]);
		is($err, '', "$file: a query runs");
		ok(length $out, 'and says something');
	}
}

sub get
{
	my ($url) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'python3', '-c', 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())', $url ], '>', \$out, '2>', \$err);
	return $out;
}

SKIP:
{
	skip 'prometheus or prometheus-sql-exporter is not here', 4 unless found('prometheus') && found('prometheus-sql-exporter') && found('python3');
	my $monitoring = Outbox::Monitoring->start($node, rules => "$dir/alerts.yml");
	ok(wait_until(sub { get($monitoring->metrics_url) =~ /sql_outbox\{.*outbox_events_published_total/ }, 60), 'the exporter has the figures') or diag($monitoring->said, get($monitoring->metrics_url));
	my $asked = '';
	my $ask = sub { my ($query) = @_; $asked = get($monitoring->url . "/api/v1/query?query=$query"); return $asked };
	ok(wait_until(sub { $ask->('outbox_events_published_total') =~ /"route":"all".*"7"\]/ }, 60), 'Prometheus has them under their own names') or diag($asked);
	ok(wait_until(sub { $ask->('histogram_quantile(0.99,outbox_commit_to_ack_seconds_bucket)') =~ /"value":\[[0-9.]+,"[0-9.e-]+"\]/ }, 60), 'and makes a quantile of a histogram') or diag($asked);
	my $rules_there = get($monitoring->url . "/api/v1/rules");
	my $healthy = () = $rules_there =~ /"type":"alerting"/g;
	is($healthy, scalar @alerts, 'it has taken the rules');
	$monitoring->stop;
}
no_server_crashed($node);
done_testing();
