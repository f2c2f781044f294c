# A relay worker and the keeper are stopped (SIGSTOP): outbox.process says that they stand, as doctor() does, which does not call them
# well beside that; and that they run when they go on.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 1\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub state_of { my ($what) = @_; return "SELECT state FROM outbox.process WHERE database = 'postgres' AND process = '$what'" }
my $doctor = q(SELECT string_agg("check" || ' ' || status, ', ' ORDER BY 1) FROM outbox.doctor() WHERE "check" IN ('keeper', 'workers', 'standstill'));
sql(q(CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'nowhere')));
sql(q(SELECT outbox.emit_text('a', 'k', 'e', 'x')));
ok(wait_idle($node), 'delivered');
my %pid = map { $_ => sql("SELECT pid FROM outbox.worker WHERE kind = '$_'") } qw(relay keeper);
Outbox::Faults::put('doctor.stands', 6_000_000);
is(sql(state_of($_)), 'running', "the $_ runs") foreach qw(relay keeper);
is(sql($doctor), 'keeper ok, workers ok', 'as doctor() says');

kill 'STOP', $pid{relay};
ok(wait_until(sub { sql(state_of('relay')) ne 'running' }, 60), 'a worker was stopped');
is(sql(state_of('relay')) . ' ' . sql(state_of('keeper')), 'stands running', 'outbox.process says that it stands');
like(sql(q(SELECT detail FROM outbox.process WHERE database = 'postgres' AND process = 'relay')), qr/^Relay worker with process $pid{relay} is there, and has done nothing since .*outbox\.doctor\(\)/, 'which it is');
is(sql($doctor), 'keeper ok, standstill problem', 'and doctor() that it is a problem');

kill 'STOP', $pid{keeper};
ok(wait_until(sub { sql(state_of('keeper')) ne 'running' }, 60), 'the keeper was stopped');
is(sql(state_of('relay')) . ' ' . sql(state_of('keeper')), 'stands stands', 'both stand');
is(sql($doctor), 'standstill problem, standstill problem', 'and nothing is well of them');

kill 'CONT', values %pid;
ok(wait_for_value($node, state_of($_), 'running', 60), "the $_ goes on") foreach qw(relay keeper);
is(sql($doctor), 'keeper ok, workers ok', 'and all is well');
is(sql(q(SELECT string_agg(pid::text, ' ' ORDER BY kind) FROM outbox.worker WHERE kind IN ('relay', 'keeper'))), "$pid{keeper} $pid{relay}", 'with the same processes');
no_server_crashed($node);
$node->stop;
done_testing();
