# Eight serializable clients with keys of their own that insert into outbox.event and look at what they have inserted,
# as ORMs do: none fails on another one's account.
# matrix: B9 R24
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.enabled = off\n");
$node->safe_psql('postgres', q(SELECT outbox.emit('warm', 1, 'up', '1')));
my $script = $node->basedir . '/serializable.sql';
append_to_file($script, q{
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload)
VALUES (gen_random_uuid(), 'order', :client_id::text, 'created', '{"a": 1}') RETURNING id \gset
SELECT count(*) FROM outbox.event;
SELECT payload FROM outbox.event WHERE id = ':id';
COMMIT;
});
my ($out, $err);
IPC::Run::run([ 'pgbench', '-n', '-c', 8, '-j', 2, '-t', 200, '-f', $script, $node->connstr('postgres') ], '>', \$out, '2>', \$err);
unlike($err, qr/could not serialize/, 'no client fails to serialize') or diag($err);
is($node->safe_psql('postgres', q(SELECT count(*) FROM outbox_internal.log WHERE aggregate_type = 'order')), 1600, 'all have committed');

# What the view shows within one statement, and to one that began before: only what earlier statements have emitted.
is($node->safe_psql('postgres', q{BEGIN ISOLATION LEVEL SERIALIZABLE;
	INSERT INTO outbox.event (aggregate_type, event_type, payload) VALUES ('a', 'e', '1');
	INSERT INTO outbox.event (aggregate_type, event_type, payload) SELECT 'b', 'e', payload FROM outbox.event;
	SELECT string_agg(aggregate_type, '' ORDER BY created_at) FROM outbox.event;
	SAVEPOINT s; INSERT INTO outbox.event (aggregate_type, event_type, payload) VALUES ('c', 'e', '1'); ROLLBACK TO s;
	SELECT string_agg(aggregate_type, '' ORDER BY created_at) FROM outbox.event;
	DECLARE early CURSOR FOR SELECT count(*) FROM outbox.event;
	INSERT INTO outbox.event (aggregate_type, event_type, payload) VALUES ('d', 'e', '1');
	FETCH early; COMMIT}), "ab\nab\n2", 'a statement sees what was emitted before it');
no_server_crashed($node);
done_testing();
