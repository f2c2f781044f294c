# A Quarkus application with Debezium's own extension, as its guide has it (@Transactional, a CDI event, Hibernate): what it writes into its
# outbox table is emitted, in the order in which it was written, with the trace of its request, if its transaction commits, and not at all if
# it does not. No line of it knows of outbox. Once it finds outbox.outboxevent by its search path, once a view in the place of its own table,
# with a column more; with the DELETE behind each INSERT that the extension sends, and without. Where the view
# stands in the place of the table, Hibernate finds it valid (it looks into one schema only, and not along the search path).
# matrix: H9
use strict;
use warnings;

use IPC::Run;
use JSON::PP;
use Outbox::Test;
use Test::More;

Outbox::Kafka->skip_without;
my $stack = { name => 'Quarkus with Debezium outbox' };
my $there = "$ENV{OUTBOX_CLIENTS}/quarkus";
my ($lacks) = ($ENV{OUTBOX_CLIENTS_SAID} // '') =~ /^quarkus (.*)/m;
plan(skip_all => "$stack->{name}: $lacks") if ($lacks // 'ok') ne 'ok';
my $json = JSON::PP->new->utf8->canonical;

my $kafka = Outbox::Kafka->start;
my $node = new_node(conf => "listen_addresses = '127.0.0.1'\n");
$node->append_conf('pg_hba.conf', 'host all app 127.0.0.1/32 trust');
$node->safe_psql('postgres', 'CREATE ROLE app LOGIN');

# What docs/from-debezium.md says of a table of one's own.
my $view = <<'SQL';
CREATE VIEW outboxevent AS
  SELECT id, aggregatetype, aggregateid, type, "timestamp", payload, tracingspancontext, NULL::text AS tenant FROM outbox.outboxevent;
CREATE TRIGGER outboxevent INSTEAD OF INSERT OR UPDATE OR DELETE ON outboxevent
  FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
GRANT INSERT, SELECT, DELETE ON outboxevent TO app;
SQL

foreach my $case (
	{ case => 'path', build => 'plain', set_up => "SELECT outbox.grant_emit('app')", url => '?currentSchema=public,outbox' },
	{ case => 'kept', build => 'plain', set_up => "SELECT outbox.grant_emit('app')", url => '?currentSchema=public,outbox', properties => ['-Dquarkus.debezium-outbox.remove-after-insert=false'] },
	{ case => 'place', build => 'column', set_up => $view, url => '', tenant => 'acme',
		properties => ['-Dquarkus.hibernate-orm.schema-management.strategy=validate'] })
{
	my $name = $case->{case};
	my $database = "quarkus_$name";
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, PostgreSQL::Test::Utils::slurp_file("$ENV{OUTBOX_TOP}/test/clients/schema.sql")
		  =~ s/\A/CREATE EXTENSION outbox;\n/r =~ s/^SELECT outbox.grant_emit.*//mr . $case->{set_up});
	$kafka->create_topic("$name.order", 1);
	$node->safe_psql($database, "CREATE SERVER events FOREIGN DATA WRAPPER outbox_kafka OPTIONS (\"bootstrap.servers\" '$kafka->{bootstrap}');
		SELECT outbox.create_route('events', server => 'events', format => 'debezium', topic => '$name.{aggregate_type}',
			options => '{\"table.fields.additional.placement\": \"type:header:eventType\"}')");

	my ($out, $err, $began) = ('', '', time);
	{
		local $ENV{QUARKUS_DATASOURCE_JDBC_URL} = 'jdbc:postgresql://127.0.0.1:' . $node->port . "/$database$case->{url}";
		local $ENV{QUARKUS_DATASOURCE_USERNAME} = 'app';
		IPC::Run::run([ "$there/jdk/bin/java", @{ $case->{properties} // [] }, '-jar', "$there/target/$case->{build}/quarkus-run.jar", $case->{tenant} // () ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(180));
	}
	note("$name: " . (time - $began) . ' s');
	my %said = map { my $line = eval { $json->decode($_) }; $line ? ($line->{case} => $line) : () } split /\n/, $out;
	ok($said{done}, "$name: the application did all that it does") or diag($err);
	is($said{rolled_back}{error}, 'IllegalStateException', "$name: a transaction that is rolled back fails as it always did");
	isnt($said{commit_fails}{error} // 'none', 'none', "$name: and so does one that cannot commit");
	is($node->safe_psql($database, "SELECT outbox.wait_until_idle('60s')"), 't', "$name: delivered");
	is($node->safe_psql($database, 'SELECT count(*) FROM outbox_internal.parked'), '0', "$name: nothing is parked");

	my @records = @{ $kafka->records("$name.order") };
	my $customer = "Zo\x{eb} \"Z\" O'Neil";
	my @wanted = (
		[ $said{placed}{key}, 'order.placed', { customer => $customer, total => 129.97 } ],
		(map { [ '9007199254740993', 'order.changed', { n => $_ } ] } 1 .. 20),
		[ "gr\x{f6}\x{df}e 1", 'order.text', 'a text' ],
		[ 'long', 'order.long', { x => "\x{fc}" x 100_000 } ],
		[ 'gone', 'order.deleted', undef ],
		[ 'null', 'order.null', 'null' ],
		[ 'last', 'order.last', { customer => $customer, total => 129.97 } ]);
	my $reader = JSON::PP->new->allow_nonref;
	is_deeply([ map { [ $_->{key}, $_->{headers}{eventType}, defined $_->{payload} ? $reader->decode($_->{payload}) // 'null' : undef ] } @records ], \@wanted,
		"$name: every event that was committed, once, in the order in which it was written, and no other");
	my %ids = map { $_->{headers}{id} // 'none' => 1 } @records;
	is(join(' ', sort keys %ids), join(' ', split /\n/, $node->safe_psql($database, 'SELECT id FROM outbox_internal.log ORDER BY id::text COLLATE "C"')), "$name: their ids");
	is(scalar(keys %ids), scalar(@wanted), "$name: each has its own");
	like($records[0]{headers}{traceparent}, qr/^00-\Q$said{placed}{trace}\E-[0-9a-f]{16}-01$/, "$name: the trace of the request");
	is($records[0]{headers}{tenant}, $case->{tenant}, "$name: the column more");
	is($node->safe_psql($database, 'SELECT count(*) FROM orders'), '1', "$name: one order is there");
	is($node->safe_psql($database, q{SELECT count(*) FROM outbox_internal.log WHERE created_at < '2000-01-01'}), '0', "$name: the time is the server's");
	$node->safe_psql('postgres', "DROP DATABASE $database WITH (FORCE)");
}
no_server_crashed($node);
done_testing();
