# What is wrong with a file that an option names is said with the option and the file's path, by test_server() with what to do, and in the
# trouble of the destination: a directory, an empty file, one that is cut short or that has something else in it. No server is needed.
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
my ($key, $certificate) = Outbox::Kafka::key_and_certificate();
(my $damaged = $certificate) =~ s/\n.{8}/\n!!!!!!!!/;
mkdir "$dir/directory";
append_to_file("$dir/$_->[0]", $_->[1]) foreach [ 'good', $certificate ], [ 'key', $key ], [ 'empty', '' ], [ 'text', "hello\n" ], [ 'cut', substr($certificate, 0, 300) ], [ 'damaged', $damaged ];
my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
my $redis = q(host '127.0.0.1', port '1', tls 'true');
my $kafka = q("bootstrap.servers" '127.0.0.1:1', "security.protocol" 'ssl');
my @cases = (
	# file, what is wrong with it
	[ 'directory', 'is a directory' ],
	[ 'empty', 'is empty' ],
	[ 'text', 'has no PEM text in it' ],
	[ 'cut', 'is cut short or damaged' ],
	[ 'damaged', '' ]);
foreach my $case (@cases)
{
	my ($name, $wrong) = @$case;
	foreach my $option (
		[ 'outbox_redis', $redis, 'ca_file', '' ],
		[ 'outbox_redis', $redis, 'certificate_file', ", key_file '$dir/key'" ],
		[ 'outbox_redis', $redis, 'key_file', ", certificate_file '$dir/good'" ],
		[ 'outbox_kafka', $kafka, 'ssl.ca.location', '' ],
		[ 'outbox_kafka', $kafka, 'ssl.certificate.location', qq(, "ssl.key.location" '$dir/key') ])
	{
		my ($wrapper, $options, $of, $more) = @$option;
		next if $of eq 'ssl.ca.location' && $name eq 'directory';  # may be one
		sql(qq{CREATE SERVER s FOREIGN DATA WRAPPER $wrapper OPTIONS ($options$more, "$of" '$dir/$name')});
		like(sql(q{SELECT error_class, detail, hint FROM outbox.test_server('s', timeout => '10 s') WHERE NOT ok}),
			qr/^config\|.*the file "\Q$dir\E\/$name" of option "\Q$of\E".*\Q$wrong\E.*\|It has to be a file .*PEM/, "$of: $name");
		sql('DROP SERVER s');
	}
}
sql(qq{CREATE SERVER s FOREIGN DATA WRAPPER outbox_redis OPTIONS ($redis, ca_file '$dir/directory');
	SET outbox.test_new_routes = off;
	SELECT outbox.create_route('s', server => 's');
	SELECT outbox.emit('order', 1, 'order.created', '{}')});
my $said = '';
ok(wait_until(sub { ($said = sql('SELECT error_class, error_code, error_message FROM outbox.destination')) =~ /^config\|TLS\|the file "\Q$dir\E\/directory" of option "ca_file" is a directory$/ }, 60),
	'the trouble of the destination') or diag($said);
no_server_crashed($node);
$node->stop;
done_testing();
