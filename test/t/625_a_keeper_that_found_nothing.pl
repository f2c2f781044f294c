# A keeper that found no outbox in use leaves in good order, also where the first route is made before the launcher sees that it has left:
# nothing of that is a restart of a process that ended unasked. A process that is ended by somebody is one.
# matrix: M1
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(extension => 0);
sub sql { return $node->safe_psql('postgres', @_) }
sub restarts { my ($kind) = @_; return sql("SELECT value FROM outbox.metrics() WHERE name = 'outbox_worker_restarts_total' AND labels ->> 'kind' = '$kind'") }
sub running { my ($kind) = @_; return wait_for_value($node, "SELECT count(*) > 0 FROM outbox.worker WHERE kind = '$kind' AND state = 'running'", 't', 60) }
my $of = sub { return sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'outbox $_[0]'") };

# The keeper waits before it looks; then nobody sees that it has left.
Outbox::Faults::arm('keeper.start', 'wait');
sql('CREATE EXTENSION outbox');
ok(Outbox::Faults::await_waiting('keeper.start'), 'a keeper is about to look at the database');
Outbox::Faults::arm('launcher.turn', 'wait');
sql('SELECT pg_reload_conf()');  # which wakes it
ok(Outbox::Faults::await_waiting('launcher.turn'), 'the launcher waits');
Outbox::Faults::release('keeper.start');
ok(wait_until(sub { $of->('keeper') eq '' }, 60), 'nothing is in use there, and it leaves');
sql(q(CREATE SERVER look FOREIGN DATA WRAPPER outbox_log; SELECT outbox.create_route('all', server => 'look')));
Outbox::Faults::release('launcher.turn');
ok(running('keeper') && running('relay'), 'a route was made meanwhile: there are processes');
is(restarts('keeper'), 0, 'no keeper has ended unasked');

# A relay worker that finds that the extension is gone; then it comes back. The keeper does not find out before.
Outbox::Faults::arm('keeper.cycle', 'wait');
ok(Outbox::Faults::await_waiting('keeper.cycle'), 'the keeper waits');
sql(q(SET outbox.allow_loss = on; DROP EXTENSION outbox CASCADE));
ok(wait_until(sub { $of->('relay') eq '' }, 60), 'the extension is gone, and the relay worker leaves');
Outbox::Faults::release('keeper.cycle');
ok(wait_until(sub { $of->('keeper') eq '' }, 60), 'so does the keeper');
sql(q(CREATE EXTENSION outbox; CREATE SERVER look FOREIGN DATA WRAPPER outbox_log; SELECT outbox.create_route('all', server => 'look')));
ok(running('keeper') && running('relay'), 'made anew, it has processes');
is(restarts('keeper') . ' ' . restarts('relay'), '0 0', 'none of these ended unasked');

foreach my $kind (qw(keeper relay))
{
	my $pid = $of->($kind);
	sql("SELECT pg_terminate_backend($pid)");
	ok(wait_until(sub { restarts($kind) == 1 }, 60), "a $kind that somebody ends has");
}
no_server_crashed($node);
done_testing();
