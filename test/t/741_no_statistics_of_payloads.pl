# Payloads and headers are in no statistics of PostgreSQL's, where forget() would not find them: not of parked events, of the
# log, its days and what lies beside them, analyzed as a whole or by column; and none of before an update from 0.1 are left.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => stage_with('outbox--0.1.sql') . "autovacuum = off\n");
my $database = 'postgres';
sub sql { my ($query) = @_; return $node->safe_psql($database, $query) }
my $secret = 'S3CRET';
# Tables with statistics that have it: in text, or in bytes.
sub statistics { my ($text) = @_; return sql("SELECT coalesce(string_agg(DISTINCT s.starelid::regclass::text, ' '), '') FROM pg_statistic s
	WHERE s::text ~ '$text' OR s::text ~ encode('$text', 'hex')") }
sub emit { my ($more) = @_; return sql(qq{SELECT count(outbox.emit('person', 'K3Y' || n % 3, 'e', jsonb_build_object('name', '$secret' || n % 3), jsonb_build_object('mail', '$secret' || n % 3)$more))
	FROM generate_series(1, 30) n}) }

emit(q{, deliver_at => now() + interval '1 day'});
sql(qq{SET outbox.allow_loss = on; INSERT INTO outbox.route (name, server, start_snapshot, start_time) VALUES ('r', 'nowhere', pg_current_snapshot(), '-infinity');
	INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, payload, headers, topic)
	SELECT r.id, 0, l.created_at, l.id, l.aggregate_type, l.aggregate_id, l.event_type, l.payload, l.headers, 't' FROM outbox.route r, outbox_internal.log l;
	INSERT INTO outbox_internal.foreign_event (id, aggregate_type, aggregate_id, event_type, payload, headers) SELECT l.id, l.aggregate_type, l.aggregate_id, l.event_type, l.payload, l.headers FROM outbox_internal.log l});
my @tables = split /\n/, sql(q{SELECT c.oid::regclass FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'payload' WHERE c.relnamespace = 'outbox_internal'::regnamespace AND c.relkind IN ('r', 'p')});
cmp_ok(scalar(@tables), '>=', 5, 'tables have payloads');
sql("ANALYZE $_; ANALYZE $_ (payload, headers)") foreach @tables;
is(statistics($secret), '', 'no statistics of payload or headers');
is(sql(q{SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = 'outbox_internal'::regnamespace AND c.relkind IN ('r', 'p')
	AND a.attname IN ('payload', 'headers') AND a.attstattarget IS DISTINCT FROM 0}), '0', 'nor where there are no rows yet');
like(statistics('K3Y'), qr/^(?=.*\bparked\b)(?=.*\blog_[0-9]{8}\b)/, 'as there are of the rest');

# An older database, with its days.
sql('CREATE DATABASE older');
$database = 'older';
sql(q{CREATE EXTENSION outbox VERSION '0.1'});
emit('');
# As its library made them.
sql(q{SELECT format('ALTER TABLE %s ALTER COLUMN payload SET STATISTICS -1, ALTER COLUMN headers SET STATISTICS -1', i.inhrelid::regclass) FROM pg_inherits i WHERE i.inhparent = 'outbox.log'::regclass \gexec});
sql('ANALYZE');
like(statistics($secret), qr/\blog_[0-9]{8}\b/, 'an older version has some');
sql('ALTER EXTENSION outbox UPDATE');
is(statistics($secret), '', 'none is left');
sql('ANALYZE');
is(statistics($secret), '', 'and none comes');
like(statistics('K3Y'), qr/\blog_[0-9]{8}\b/, 'as there are of the rest');
$node->stop;
done_testing();
