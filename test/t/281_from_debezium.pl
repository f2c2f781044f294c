# docs/from-debezium.md, as written: from a running Debezium Server to outbox, and back, while an application goes on writing
# into its outbox table with the statements of Debezium's own libraries (an INSERT and a DELETE of the same row). At the end
# every event that was committed is in the topic once, and those of a key in the order in which they were committed.
# matrix: H8
# ring: long
use strict;
use warnings;

use IPC::Run ();
use Outbox::Debezium;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
Outbox::Debezium::skip_without();

# The statements of the page, by their headings.
my $page = do { local (@ARGV, $/) = "$ENV{OUTBOX_TOP}/docs/from-debezium.md"; <> };
my %step = $page =~ /<!-- step: (\w+) -->\n+```sql\n(.*?)```/gs;
is_deeply([ sort keys %step ], [qw(back caught_up cut route start)], 'the page has its steps');

my $node = new_node(conf => "wal_level = logical\nmax_wal_senders = 4\nlisten_addresses = '127.0.0.1'\noutbox.test_new_routes = off\n");
$node->append_conf('pg_hba.conf', 'host all debezium 127.0.0.1/32 trust');
$node->reload;
my $kafka = Outbox::Kafka->start;
$kafka->create_topic('outbox.event.order', 3);
sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql) }

sql(<<'SQL');
CREATE ROLE debezium LOGIN SUPERUSER;
CREATE ROLE shop LOGIN;
GRANT shop TO CURRENT_USER;
CREATE TABLE outboxevent (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL,
	type varchar(255) NOT NULL, "timestamp" timestamptz NOT NULL, payload varchar(8000), tracingspancontext varchar(256));
GRANT INSERT, SELECT, DELETE ON outboxevent TO shop;
CREATE PUBLICATION debezium FOR TABLE outboxevent;
CREATE TABLE wrote (key text, n bigint, id uuid);
GRANT INSERT ON wrote TO shop;
SELECT pg_create_logical_replication_slot('debezium', 'pgoutput');
CREATE PROCEDURE go_on(client int) LANGUAGE plpgsql AS $go$
DECLARE
	n bigint := 0;
	event uuid;
BEGIN
	SET ROLE shop;
	LOOP
		n := n + 1;
		event := gen_random_uuid();
		INSERT INTO outboxevent (aggregatetype, aggregateid, type, "timestamp", payload, tracingspancontext, id)
		VALUES ('order', client || '.' || n % 5, 'OrderChanged', now(), jsonb_build_object('n', n), NULL, event);
		DELETE FROM outboxevent WHERE id = event;
		IF NOT FOUND THEN
			RAISE 'the DELETE counted nothing';
		END IF;
		INSERT INTO wrote VALUES (client || '.' || n % 5, n, event);
		IF n % 7 = 0 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
		SET ROLE shop;
		PERFORM pg_sleep(0.005);
	END LOOP;
END
$go$;
SQL

my %debezium = Outbox::Debezium::kafka($kafka);
my $debezium = Outbox::Debezium->new($node, 'debezium', 'public.outboxevent', %debezium, 'transforms.outbox.table.fields.additional.placement' => 'type:header:eventType');
$debezium->start;
my @clients = map {
	IPC::Run::start([ 'psql', '-XqAt', '-d', $node->connstr('postgres'), '-c', "CALL go_on($_)" ], '<', \undef, '>', '/dev/null', '2>', "$debezium->{dir}/client.$_")
} 1, 2;
sub told { return $kafka->count('outbox.event.order') }
sub more_than { my ($count) = @_; return wait_until(sub { told() > $count }, 180) }
ok(more_than(100), 'Debezium delivers while the application writes');

# --- there ---

sql($step{route} =~ s/kafka:9092/$kafka->{bootstrap}/r);
sql($step{cut});
# It delivers what is left by and by; then the slot has the last transaction at most, whose events are in the topic.
sub delivered { return { map { ($_->{headers}{id} =~ tr/"//dr) => 1 } @{ $kafka->records('outbox.event.order') } } }
my @missing = ('unknown');
foreach my $try (1 .. 10)
{
	wait_until(sub { my $before = told(); select undef, undef, undef, 0.5; told() == $before }, 60);
	$debezium->stop;
	my $delivered = delivered();
	@missing = grep { !$delivered->{$_} } split /\n/, sql($step{caught_up});
	last if !@missing || $try == 10;
	diag("try $try: missing @missing");
	$debezium->start;
}
is_deeply(\@missing, [], 'Debezium has delivered all that was written before the cut');
my $by_debezium = told();
sql($step{start});
ok(more_than($by_debezium + 100), 'outbox delivers while the application writes');

# --- and back ---

sql($step{back});
ok(wait_idle($node), 'outbox has delivered all that was written before the way back');
my $by_outbox = told() - $by_debezium;
cmp_ok($by_outbox, '>', 100, "outbox delivered $by_outbox events, Debezium $by_debezium before");
$debezium->start;
ok(more_than($by_debezium + $by_outbox + 100), 'Debezium delivers again');

# --- every event once, in the order of its key ---

sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CALL go_on%'});
ok(wait_until(sub { sql(q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL go_on%' AND state <> 'idle'}) eq '0' }), 'the application has ended');
$_->kill_kill foreach @clients;
foreach my $client (1, 2)
{
	my $said = do { local (@ARGV, $/) = "$debezium->{dir}/client.$client"; <> } // '';
	unlike($said =~ s/ERROR:  canceling statement due to user request//r, qr/ERROR/, "client $client was never refused anything");
}
my $written = sql('SELECT count(*) FROM wrote');
ok(wait_until(sub { told() >= $written }, 120), 'the last ones have arrived');
my (%seen, %last, @wrong);
foreach my $record (@{ $kafka->records('outbox.event.order') })
{
	my $id = $record->{headers}{id} =~ tr/"//dr;
	my ($n) = $record->{payload} =~ /(\d+)/;
	push @wrong, "$id came twice" if $seen{$id}++;
	push @wrong, "$record->{key}: $n behind $last{ $record->{key} }" if ($last{ $record->{key} } // 0) >= $n;
	$last{ $record->{key} } = $n;
}
is_deeply(\@wrong, [], 'nothing came twice, and keys kept their order across both cuts');
is_deeply([ sort keys %seen ], [ split /\n/, sql('SELECT id FROM wrote ORDER BY id::text COLLATE "C"') ], "each of $written committed events came, and no other");
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing is parked');
no_server_crashed($node);
done_testing();
