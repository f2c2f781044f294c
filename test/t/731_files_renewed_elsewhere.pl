# A file that an option names, renewed by way of a link into another directory (a file's link, or a directory's, as certbot and Kubernetes
# do it), in another directory under the same name, or where its directory stays closed: the sinks, which may read what was there when they
# were started and no more, take it, without anybody doing anything. Those that are well stay as they are.
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
foreach my $name (qw(old new))
{
	my ($key, $certificate) = Outbox::Kafka::key_and_certificate();
	append_to_file("$dir/$name.key", $key);
	append_to_file("$dir/$name.pem", $certificate);
}
my $port = PostgreSQL::Test::Cluster::get_free_port();
sub serve
{
	my ($name) = @_;
	unlink "$dir/server.pem", "$dir/server.key";
	append_to_file("$dir/server.$_", slurp_file("$dir/$name.$_")) foreach qw(pem key);
	return;
}
serve('old');
my $redis = Outbox::Redis->start(conf => [ "tls-port $port", "tls-cert-file $dir/server.pem", "tls-key-file $dir/server.key", "tls-ca-cert-file $dir/server.pem", 'tls-auth-clients no' ]);

my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub put
{
	my ($what, $in) = @_;
	mkdir "$dir/$in";
	append_to_file("$dir/$in/ca.pem", slurp_file("$dir/$what.pem"));
	return;
}
sub lead { my ($from, $to) = @_; symlink $to, "$dir/lead" or die $!; rename "$dir/lead", "$dir/$from" or die $!; return }

(my $closed = $node->data_dir) =~ s,/[^/]+$,/ca.pem,;  # beside the data directory
put('old', $_) foreach qw(v1 a place file);
lead('current', 'v1');
lead('file/ca.pem', "$dir/a/ca.pem");
append_to_file($closed, slurp_file("$dir/old.pem"));
my %file = (by_directory => "$dir/current/ca.pem", by_file => "$dir/file/ca.pem", in_place => "$dir/place/ca.pem", closed => $closed);
foreach my $server (sort keys %file)
{
	sql(qq{CREATE SERVER $server FOREIGN DATA WRAPPER outbox_redis OPTIONS (host 'localhost', port '$port', tls 'true', ca_file '$file{$server}');
		SET outbox.test_new_routes = off;
		SELECT outbox.create_route('$server', server => '$server', topic => '$server')});
}
sub arrived { my ($count) = @_; return (grep { $redis->xlen($_) == $count } keys %file) == keys %file }
sub trouble { return sql('SELECT server, state, error_code, error_message, deaths FROM outbox.destination ORDER BY 1') }
sql(q{SELECT outbox.emit('order', 1, 'order.created', '{}')});
ok(wait_until(sub { arrived(1) }, 60), 'with the files of the start') or diag(trouble());

# Another authority, and then the server has another certificate.
put('new', $_) foreach qw(v2 b placed);
lead('current', 'v2');
lead('file/ca.pem', "$dir/b/ca.pem");
rename "$dir/place", "$dir/away" or die $!;
rename "$dir/placed", "$dir/place" or die $!;
append_to_file("$closed.new", slurp_file("$dir/new.pem"));
rename "$closed.new", $closed or die $!;
sql(q{SELECT outbox.emit('order', 2, 'order.created', '{}')});
ok(wait_until(sub { arrived(2) }, 60), 'connections that are there go on');
is(sql('SELECT sum(deaths) FROM outbox.destination'), '0', 'in the same processes');
serve('new');
$redis->restart;
sql(q{SELECT outbox.emit('order', 3, 'order.created', '{}')});
ok(wait_until(sub { arrived(3) }, 60), 'what was renewed is read once it is needed') or diag(trouble());
ok(wait_until(sub { sql('SELECT count(*) FROM outbox.destination WHERE error_class IS NOT NULL') eq '0' }, 30), 'and the trouble is over') or diag(trouble());

# A directory that comes later than the sink, also one of Kafka's: where no Kafka is, its trouble is another one then.
sql(qq{CREATE SERVER later FOREIGN DATA WRAPPER outbox_redis OPTIONS (host 'localhost', port '$port', tls 'true', ca_file '$dir/later/ca.pem');
	SET outbox.test_new_routes = off;
	SELECT outbox.create_route('later', server => 'later', topic => 'later');
	CREATE SERVER kafka FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '127.0.0.1:1', "security.protocol" 'ssl', "ssl.ca.location" '$dir/later/ca.pem');
	SELECT outbox.create_route('kafka', server => 'kafka', topic => 'later');
	SELECT outbox.emit('order', 4, 'order.created', '{}')});
sub without_file { return sql(q{SELECT count(*) FROM outbox.destination WHERE error_message ~ 'could not open the file .*/later/ca.pem'}) }
ok(wait_until(sub { without_file() == 2 }, 60), 'a file that is not there') or diag(trouble());
put('new', 'later');
ok(wait_until(sub { $redis->xlen('later') == 1 && without_file() == 0 }, 60), 'and one that comes in a directory of its own') or diag(trouble());
no_server_crashed($node);
$node->stop;
done_testing();
