# Debian's exporter and Prometheus for TAP tests, with the files of monitoring/ and the lines of docs/monitoring.md, one second instead
# of fifteen.
package Outbox::Monitoring;

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

my @all;

sub found { my ($program) = @_; return grep { -x "$_/$program" } split /:/, $ENV{PATH} }

# What is missing here; empty: nothing.
sub missing { return join ', ', grep { !found($_) } qw(prometheus prometheus-sql-exporter python3) }

# For a node with a role `monitor` that may look. %options: rules => a file of alert rules.
sub start
{
	my ($class, $node, %options) = @_;
	my $top = $ENV{OUTBOX_TOP};
	my $work = $node->basedir;
	my $self = bless { log => "$work/monitoring.log", exporter_port => PostgreSQL::Test::Cluster::get_free_port(), port => PostgreSQL::Test::Cluster::get_free_port() }, $class;
	my $config = slurp_file("$top/monitoring/sql_exporter.yml");
	my ($host, $port) = ($node->host, $node->port);
	$config =~ s/interval: 15s/interval: 1s/;
	$config =~ s{- postgres://\S+}{- 'postgres://monitor@/postgres?host=$host&port=$port&sslmode=disable'};
	append_to_file("$work/exporter.yml", $config);
	my ($scrape) = slurp_file("$top/docs/monitoring.md") =~ /^( +scrape_configs:\n(?: {8,}.*\n)+)/m;
	$scrape =~ s/^ {6}//mg;
	$scrape =~ s/localhost:9237/127.0.0.1:$self->{exporter_port}/;
	my $rules = $options{rules} ? "rule_files: ['$options{rules}']\n" : '';
	append_to_file("$work/prometheus.yml", "global: {scrape_interval: 1s, evaluation_interval: 1s}\n$rules$scrape");
	push @{ $self->{running} },
	  IPC::Run::start([ 'prometheus-sql-exporter', '-config.file', "$work/exporter.yml", '-web.listen-address', "127.0.0.1:$self->{exporter_port}" ], '<', \undef, '>', $self->{log}, '2>&1'),
	  IPC::Run::start([ 'prometheus', "--config.file=$work/prometheus.yml", "--storage.tsdb.path=$work/tsdb", "--web.listen-address=127.0.0.1:$self->{port}" ], '<', \undef, '>>', $self->{log}, '2>&1');
	push @all, $self;
	return $self;
}

sub metrics_url { my ($self) = @_; return "http://127.0.0.1:$self->{exporter_port}/metrics" }
sub url { my ($self) = @_; return "http://127.0.0.1:$self->{port}" }
sub said { my ($self) = @_; return slurp_file($self->{log}) }
sub stop { my ($self) = @_; $_->kill_kill foreach splice @{ $self->{running} }; return }
END { $_->stop foreach @all }

1;
