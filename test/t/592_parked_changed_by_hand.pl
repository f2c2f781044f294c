# Lanes are told of what outbox.allow_loss lets somebody change of parked events: behind one that is made dead on a route that blocks, nothing
# of its key goes, and all of it goes when that one does. As with other changes of parked events, such a transaction is not prepared.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\noutbox.lone_emit = allow\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('s'), on_failure => q('block'));
sub sql { return $node->safe_psql('postgres', @_) }
sub arrived { my ($key) = @_; return join ' ', map { $_->{type} } grep { $_->{key} eq $key } @{ $redis->entries('s') } }
sub states { my ($key) = @_; return sql("SELECT coalesce(string_agg(event_type || ' ' || state, ', ' ORDER BY created_at), '') FROM outbox_internal.parked WHERE aggregate_id = '$key'") }
# Worker and lane have been through their turns.
sub one_more
{
	my ($n) = @_;
	sql("SELECT outbox.emit('k', 'other', 'n$n', '{}')");
	return ok(wait_until(sub { arrived('other') =~ /\bn$n$/ }, 60), "other keys go: $n");
}

sql("SELECT outbox.emit('k', '$_', 'first', '{}', deliver_at => now() + interval '1 day')") foreach 1 .. 3;
ok(wait_for_value($node, q(SELECT count(*) FROM outbox_internal.parked WHERE state = 'scheduled'), '3', 60), 'three wait for their time');
one_more(1);

my $dead = "SET client_min_messages = error; SET outbox.allow_loss = on; BEGIN; UPDATE outbox_internal.parked SET state = 'dead', due_at = NULL, attempts = 1, failed_at = now(), error_class = 'message', error_code = 'TEST', error_message = 'test' WHERE aggregate_id";
sql("$dead = '1'; COMMIT");
sql("$dead = '2'; ROLLBACK");
my (undef, undef, $said) = $node->psql('postgres', "$dead = '3'; PREPARE TRANSACTION 'p'");
like($said, qr/cannot prepare a transaction that changed routes or parked events/, 'it is not prepared');
one_more($_) foreach 2 .. 3;
sql("SELECT outbox.emit('k', '$_', 'later', '{}')") foreach 1 .. 3;
ok(wait_until(sub { arrived('2') eq 'later' && arrived('3') eq 'later' }, 60), 'where nothing was changed nothing is held');
one_more(4);
is(arrived('1') . '|' . states('1'), '|first dead, later blocked', 'nothing of the key goes past the event that is dead');

sql("SET client_min_messages = error; SET outbox.allow_loss = on; UPDATE outbox_internal.parked SET state = 'retrying', due_at = now() WHERE aggregate_id = '1' AND state = 'dead'");
ok(wait_until(sub { arrived('1') eq 'first later' }, 60), 'all of it goes when that one does, in order') or diag arrived('1') . '|' . states('1');
no_server_crashed($node);
done_testing();
