# What docs/monitoring.md tells a new operator to type, typed: Debian's exporter, Prometheus and Alertmanager with the files of monitoring/,
# up to an alert that fires and goes again. As on a machine of Debian's but for what root would have: /etc and systemd are stand-ins here,
# ports are others, and minutes are seconds.
# matrix: M8
use strict;
use warnings;

use IPC::Run;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{OUTBOX_TOP};
sub can { my ($program) = @_; return grep { -x "$_/$program" } split /:/, $ENV{PATH} }
my @missing = grep { !can($_) } qw(prometheus promtool prometheus-alertmanager amtool prometheus-sql-exporter openssl);
plan skip_all => "not here: @missing" if @missing;

# The lines are the page's.
my ($section) = slurp_file("$top/docs/monitoring.md") =~ /^## Ten minutes.*?\n(.*?)^## /ms;
my @blocks = $section =~ /^```sh\n(.*?)^```$/msg;
is(scalar @blocks, 7, 'the page has seven blocks of lines');
my ($lines) = slurp_file("$top/docs/monitoring.md") =~ /^ {6}(scrape_configs:\n(?: {8,}.*\n)+)/m;
$lines =~ s/^ {6}//mg;
like(slurp_file("$top/monitoring/prometheus.yml"), qr/^\Q$lines\E/m, 'the file says what the page says about scraping');

my $node = new_node(extension => 0, conf => "listen_addresses = '127.0.0.1'\n");
$node->safe_psql('postgres', 'CREATE DATABASE app');
$node->safe_psql('app', "CREATE EXTENSION outbox; CREATE SERVER look FOREIGN DATA WRAPPER outbox_log; SELECT outbox.create_route('all', server => 'look')");
# As Debian has it: a password from elsewhere.
my $hba = $node->data_dir . '/pg_hba.conf';
my $before = slurp_file($hba);
unlink $hba;
append_to_file($hba, "host all monitor 127.0.0.1/32 scram-sha-256\n$before");
$node->reload;

my $work = $node->basedir . '/machine';
mkdir $work;
my %port = map { $_ => PostgreSQL::Test::Cluster::get_free_port() } 9090, 9093, 9237;
my ($server_port, $host) = ($node->port, $node->host);
# What stands in for the machine. systemd's part: each program as its unit starts it, with the files that it finds.
my $machine = <<"SH";
set -euo pipefail
cd $top
export PGHOST=$host PGPORT=$server_port
mkdir -p $work/etc/prometheus
apt-get() { :; }
install() { [ "\$1 \$3" = "-m -g" ] && cat >"\$6"; }
systemctl() {
	[ "\$1" = restart ]
	sed -i 's/15s/1s/g; s/group_wait: 10s/group_wait: 1s/; s/for: .*m\$/for: 2s/; s,/etc/,$work/etc/,; s/localhost:9093/127.0.0.1:$port{9093}/; s/localhost:9237/127.0.0.1:$port{9237}/' $work/etc/prometheus/*.yml $work/etc/prometheus-sql-exporter.yml
	(cd $work && PGAPPNAME=x CONFIG=$work/etc/prometheus-sql-exporter.yml exec prometheus-sql-exporter -web.listen-address 127.0.0.1:$port{9237} >exporter.log 2>&1 </dev/null) & echo \$! >>$work/pids
	(cd $work && exec prometheus --config.file=$work/etc/prometheus/prometheus.yml --storage.tsdb.path=$work/tsdb --web.listen-address=127.0.0.1:$port{9090} >prometheus.log 2>&1 </dev/null) & echo \$! >>$work/pids
	(cd $work && exec prometheus-alertmanager --config.file=$work/etc/prometheus/alertmanager.yml --storage.path=$work/alerts --cluster.listen-address= --web.listen-address=127.0.0.1:$port{9093} >alertmanager.log 2>&1 </dev/null) & echo \$! >>$work/pids
}
[ ! -e $work/password ] || password=\$(cat $work/password)
SH
END
{
	if (defined $work && -e "$work/pids") { kill KILL => split /\n/, slurp_file("$work/pids") }
}
# Where a file or a port of the machine is here.
sub here
{
	my ($text) = @_;
	$text =~ s{(?<![\w.])/etc/}{$work/etc/}g;
	$text =~ s/localhost:$_\b/127.0.0.1:$port{$_}/g foreach keys %port;
	return $text =~ s{\$password\@localhost/app}{\$password\@127.0.0.1:$server_port/app}r;
}
sub type_in
{
	my ($block) = @_;
	my ($out, $err) = ('', '');
	my $script = $machine . here($block) . "\nprintf %s \"\${password:-}\" >$work/password\n";
	my $ok = IPC::Run::run([ 'bash', '-c', $script ], '<', \undef, '>', \$out, '2>', \$err);
	return ($ok, $out, $err);
}
sub typed { my ($number, $what) = @_; my ($ok, $out, $err) = type_in($blocks[$number]); ok($ok, $what) or diag($err, $out); return $out }
sub logs { return join '', map { "--- $_\n" . slurp_file($_) } glob "$work/*.log" }

typed(0, 'packages');
typed(1, 'a role that may look');
typed(2, 'files, and a restart');
my ($ok, $out);
ok(wait_until(sub { (undef, $out) = type_in($blocks[3]); return $out =~ /outbox_enabled\{.*database="app".*=> 1 / }, 60), 'Prometheus has figures') or diag($out, logs());
unlike($out, qr/password|driver=|\$password/, 'without more labels than are wanted');
typed(4, 'trouble is made');
ok(wait_until(sub { (undef, $out) = type_in($blocks[5]); return $out =~ /alertstate="firing".*destination="nowhere"/ && $out =~ /^OutboxDestinationDown .*destination nowhere takes no events/m }, 90),
	'the alert fires, and the Alertmanager has it') or diag($out, logs());
typed(6, 'the trouble is taken back');
my ($question) = $blocks[5] =~ /^(promtool .*)$/m;
ok(wait_until(sub { ($ok, $out) = type_in($question); return $ok && $out !~ /OutboxDestinationDown/ }, 60), 'and the alert goes') or diag($out);
no_server_crashed($node);
done_testing();
