# A relay worker that was stopped (SIGSTOP): what comes meanwhile is in the figures and in the progress of a drain, with and
# without the keeper; and nothing of it when it goes on.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 1\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub figure { my ($name, $route) = @_; return "SELECT value FROM outbox.metrics() WHERE name = 'outbox_$name' AND labels ->> 'route' = '$route'" }
sub emit { my ($type, $count) = @_; return sql("SELECT count(outbox.emit_text('$type', n::text, 'e', 'x')) FROM generate_series(1, $count) n") }
sub pid_of { my ($kind) = @_; return sql("SELECT pid FROM outbox.worker WHERE kind = '$kind'") }
my $drain = q(SELECT phase || ' ' || done || ' of ' || total FROM outbox.pg_stat_progress_outbox WHERE command = 'drain' AND route = 'busy');
sql('CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null');
sql(q(SELECT outbox.create_route(t, server => 'nowhere', aggregate_types => ARRAY[t]) FROM unnest(ARRAY['busy', 'quiet']) t));
emit('busy', 5);
ok(wait_idle($node) && wait_for_value($node, figure('pending_events', 'busy'), '0', 60), 'delivered');
my ($relay, $keeper) = (pid_of('relay'), pid_of('keeper'));
Outbox::Faults::put('doctor.stands', 6_000_000);
is(sql(q(SELECT status FROM outbox.doctor() WHERE "check" = 'keeper')), 'ok', 'all is well');

# --- the worker alone: the keeper looks behind its lanes ---
kill 'STOP', $relay;
emit('busy', 300);
ok(wait_for_value($node, figure('pending_events', 'busy'), '300', 30), 'what a stopped worker has not seen is pending');
ok(wait_for_value($node, figure('pending_estimated', 'busy'), '0', 60), 'all of it is counted');
cmp_ok(sql(figure('oldest_pending_age_seconds', 'busy')), '>', 0, 'for as long as it has waited');
is(sql(figure('pending_events', 'quiet')) . ' ' . sql(figure('oldest_pending_age_seconds', 'quiet')), '0 0', 'and nothing of a route that wants none of it');
ok(wait_until(sub { sql($drain) =~ /^waits \d+ of (\d+)$/ && $1 >= 300 }, 60), 'the drain waits') or diag(sql($drain));
like(sql(q(SELECT hint FROM outbox.pg_stat_progress_outbox WHERE route = 'busy')), qr/^its relay worker has done nothing since .*outbox\.doctor\(\)/, 'and says for what');
emit('busy', 20);
ok(wait_for_value($node, figure('pending_events', 'busy'), '320', 60), 'what comes later is counted, too');

# --- and the keeper ---
kill 'STOP', $keeper;
emit('busy', 30);
ok(wait_for_value($node, figure('pending_events', 'busy'), '350', 60), 'without a keeper as well');

kill 'CONT', $relay, $keeper;
ok(wait_idle($node) && wait_for_value($node, figure('pending_events', 'busy'), '0', 60), 'they go on');
ok(wait_for_value($node, figure('oldest_pending_age_seconds', 'busy'), '0', 60), 'nothing waits');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.pg_stat_progress_outbox), '0', 60), 'nothing is under way');
no_server_crashed($node);
$node->stop;
done_testing();
