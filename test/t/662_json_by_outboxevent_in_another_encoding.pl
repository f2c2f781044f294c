# What the libraries of Debezium write is JSON where it is JSON, whatever encoding the database has: on the wire, and for the
# schemas that are registered.
# matrix: H9
use strict;
use warnings;

$ENV{PGCLIENTENCODING} = 'UTF8';

use JSON::PP qw(decode_json);
use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => "max_worker_processes = 24\n");
my $redis = Outbox::Redis->start;
my $insert = 'INSERT INTO outbox.outboxevent (id, aggregatetype, aggregateid, type, payload) VALUES (gen_random_uuid()';
foreach my $encoding (qw(UTF8 LATIN1 SQL_ASCII))
{
	my $database = lc $encoding;
	$node->safe_psql('postgres', "CREATE DATABASE $database ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
	my $sql = sub { return $node->safe_psql($database, "SET client_min_messages = error; $_[0]") };
	my $fails = sub { return ($node->psql($database, "\\set VERBOSITY verbose\n$_[0]"))[2] };
	$sql->(qq{CREATE EXTENSION outbox; CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')});
	$sql->("SELECT outbox.create_route('plain', server => 'redis', topic => '$database.plain'), outbox.create_route('ce', server => 'redis', topic => '$database.ce', format => 'cloudevents-json')");
	my @bodies = ('{"a":1}', '"é"', 'no JSON', '{"a":"\\ud83d\\ude00"}', '{"a":"\\u0000"}', '"\\ud83d"', '"\\ude00"', '"\\\\u0000"', '');
	$sql->("$insert, 'order', '$_', 'sent', '$bodies[$_]')") foreach 0 .. $#bodies;
	# The views of one's own, whose columns are of another type of text.
	$sql->(q{CREATE TABLE t (id uuid, aggregatetype varchar, aggregateid varchar, type varchar, payload varchar); CREATE VIEW own AS TABLE t;
		CREATE TRIGGER emits INSTEAD OF INSERT ON own FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
		INSERT INTO own VALUES (NULL, 'order', 'own', 'sent', '[1]')});
	my %is_json = (map({ $_ => 1 } 0, 1, 3, 7, 'own'), map({ $_ => 0 } 2, 4, 5, 6, 8));
	is_deeply({ map { split /\|/ } split /\n/, $sql->(q{SELECT aggregate_id, CASE content_type WHEN 'text/plain' THEN 0 ELSE 1 END FROM (SELECT aggregate_id, coalesce(content_type, '') AS content_type FROM outbox_internal.whole_log) l}) },
		\%is_json, "$encoding: JSON is JSON, and all else text");
	ok(wait_until(sub { $redis->xlen("$database.plain") == @bodies + 1 && $redis->xlen("$database.ce") == @bodies + 1 }, 30), "$encoding: all is delivered");
	my %wire = map { my $event = decode_json($_); $event->{subject} => [ $event->{datacontenttype}, $event->{data} ] } @{ $redis->column("$database.ce", 'event') };
	is_deeply([ @wire{ 0, 2, 'own' } ], [ [ 'application/json', { a => 1 } ], [ 'text/plain', 'no JSON' ], [ 'application/json', [1] ] ], "$encoding: as a CloudEvent, too");

	$sql->(q{SELECT outbox.event_schema('order', 'checked', '{"type": "object", "required": ["b"]}')});
	like($fails->("$insert, 'order', '1', 'checked', '{\"a\":1}')"), qr/ERROR:  22023: payload does not match the schema/, "$encoding: a schema is asserted");
	like($fails->(q{INSERT INTO own VALUES (NULL, 'order', 'own', 'checked', '[1]')}), qr/ERROR:  22023: payload does not match the schema/, "$encoding: by a view of one's own, too");
	$sql->("$insert, 'order', '1', 'checked', '{\"b\":\"é\"}')");
	# An escape that stands for a character which the database has not: what jsonb cannot hold is refused in these words.
	next if $encoding eq 'UTF8';
	like($fails->("$insert, 'order', '1', 'checked', '{\"b\":\"\\ud83d\\ude00\"}')"), qr/ERROR:  22023: payload cannot be compared with the schema/,
		"$encoding: what it cannot be compared with is refused");
}
# What counts for outbox.max_payload_size is what is published: in EUC_JP an é has three bytes, in UTF-8 two.
$node->safe_psql('postgres', "CREATE DATABASE euc_jp ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
my $long = sub {
	return ($node->psql('euc_jp', "SET client_min_messages = error; CREATE EXTENSION IF NOT EXISTS outbox; SET outbox.max_payload_size = '1kB';
		SELECT 'taken' WHERE outbox.emit('order', 1, 'long', jsonb_build_array(repeat('é', $_[0]), 1e300)) IS NOT NULL"))[ $_[1] ];
};
is($long->(358, 1), 'taken', 'EUC_JP: a payload that is not too large in UTF-8, and would be in EUC_JP');
like($long->(359, 2), qr/ERROR:  payload is too large\nDETAIL:  It has 1025 bytes/, 'EUC_JP: and none that is, by two bytes more');
no_server_crashed($node);
done_testing();
