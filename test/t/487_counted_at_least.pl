# Parked events are counted up to ten thousand of a lane and state: whoever is told of more is told that there are at least as many.
# matrix: R18
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\noutbox.lone_emit = allow\n");
sub sql { return $node->safe_psql('postgres', @_) }
sub left { my ($more) = @_; my (undef, undef, $notice) = $node->psql('postgres', "SELECT outbox.wait_until_idle('0'" . ($more // '') . ')'); return $notice }
sub found { my ($check) = @_; return sql(qq(SELECT detail FROM outbox.doctor() WHERE "check" = '$check' AND detail ~ 'refused|retried' ORDER BY 1)) }

sql(q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', 'n'); SELECT outbox.pause(route => 'all', aggregate_type => 'k', aggregate_id => '1', reason => 'test')));
sub park { my ($count) = @_; return sql("SELECT count(outbox.emit('k', 1, 'e', '{}'::jsonb)) FROM generate_series(1, $count) i") }
sub parked { my ($count) = @_; return wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', $count, 180) }

park(10_000);
ok(parked(10_000), 'as many as are counted');
like(left(), qr/Parked: 10000 events blocked/, 'wait_until_idle()');
is(found('parked'), '0 events are being retried, 10000 wait behind another one or a pause.', 'doctor()');
park(1);
ok(parked(10_001), 'one more');
like(left(), qr/Parked: at least 10000 events blocked/, 'wait_until_idle()');
is(found('parked'), '0 events are being retried, at least 10000 wait behind another one or a pause.', 'doctor()');

sql(q(SET outbox.allow_loss = on; UPDATE outbox_internal.parked SET state = 'dead'));
is(found('dead letters'), 'At least 10000 events were refused and will not be tried again.', 'dead letters');
sql(q(SET outbox.allow_loss = on; UPDATE outbox_internal.parked SET state = 'scheduled', due_at = clock_timestamp() + interval '1 day'));
like(left(q(, include_delayed => true)), qr/Parked: at least 10000 events scheduled/, 'what is scheduled');
no_server_crashed($node);
done_testing();
