# While the keeper puts the guard of a day on again, and rows that have come past it apart, it writes into the log: nobody takes that for an
# open transaction that has emitted. One that has is told of all the same.
# matrix: C18
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { return $node->safe_psql('postgres', 'SET outbox.lone_emit = allow;' . join '', @_) }
sql(q{CREATE SERVER s FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', 's'), outbox.create_route('q', 's'), outbox.emit('t', '1', 'e', '{}')});
ok(wait_idle($node), 'delivered');
my $day = sql('SELECT DISTINCT tableoid::regclass FROM outbox_internal.log');
Outbox::Faults::arm('log.line', 'wait');
sql("SET outbox.allow_loss = on; ALTER TABLE $day DISABLE TRIGGER log_guard; SELECT pg_reload_conf()");
my $writes = q(SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.backend_type = 'outbox keeper' AND l.mode = 'RowExclusiveLock' AND l.relation = ') . $day . q('::regclass);
ok(wait_for_value($node, $writes, 1), 'the keeper writes into the day');
ok(Outbox::Faults::await_waiting('log.line'), 'and stands');
my (undef, undef, $said) = $node->psql('postgres', q(SELECT outbox.drop_route('q')));
unlike($said, qr/has emitted/, 'drop_route() does not take it for an emitter');
my $emitter = $node->background_psql('postgres');
$emitter->query_safe(q{BEGIN; SELECT outbox.emit('t', '2', 'e', '{}')});
(undef, undef, $said) = $node->psql('postgres', q(DELETE FROM outbox.route));
like($said, qr/1 open transaction has emitted/, 'one that has emitted is told of');
$emitter->query_safe('ROLLBACK');
$emitter->quit;
($said) = ($node->psql('postgres', q(DELETE FROM outbox.route)))[2];
is($said, '', 'and without it a route may be deleted');
Outbox::Faults::release('log.line');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox_internal.wrong_guard), 0), 'the guard is on again');
no_server_crashed($node);
done_testing();
