# A backlog that waited beside the log, behind a pause of its key, and is let go: it is told how long its events have waited, how many
# are to go, and that nobody has refused them, as long as there are any; and a delayed event has not waited before its time.
# matrix: R18
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\noutbox.lone_emit = allow\n");
sub sql { return $node->safe_psql('postgres', @_) }
sub figure { my ($name, $test) = @_; return qq(SELECT value $test FROM outbox.metrics() WHERE name = 'outbox_$name' AND labels ->> 'route' = 'all') }
sub at { my ($point) = @_; return Outbox::Faults::waiting($point) }

# Each claim of 256 events takes a tenth of a second.
sql(q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null OPTIONS (latency '100'); SELECT outbox.create_route('all', 'n')));
my $key = q(route => 'all', aggregate_type => 'k', aggregate_id => '1');
my $parked = 'SELECT count(*) FROM outbox_internal.parked';
sql("SELECT outbox.pause($key, reason => 'test')");
sql(q(SELECT count(outbox.emit('k', 1, 'e', '{}'::jsonb)) FROM generate_series(1, 20000) i));
my $due = sql(q(SELECT outbox.emit('k', 1, 'late', '{}'::jsonb)));
ok(wait_for_value($node, $parked, '20001', 180), 'a backlog is parked behind a pause of its key');
# It has waited for twenty seconds and more when it is let go.
ok(wait_for_value($node, q(SELECT clock_timestamp() > max(created_at) + interval '20 s' FROM outbox_internal.parked), 't', 180), 'for long');
is(sql(q(SELECT (delay IS NULL)::text || ' ' || overdue FROM outbox.lag)), 'true 0', 'which is as somebody said');
is(sql('SELECT count(*) FROM outbox.pg_stat_progress_outbox'), '0', 'and nothing is under way');

# --- let go, and the worker has just taken the first of it ---
Outbox::Faults::arm('parked.claim.after', 'wait');
sql("SELECT outbox.resume($key)");
ok(wait_until(sub { at('parked.claim.after') }, 180), 'a worker takes the first of it');
is(sql(q(SELECT pending || ' ' || overdue || ' ' || (delay > interval '20 s') FROM outbox.lag)), '0 256 true', 'outbox.lag: since when the oldest could have gone');
is(sql(figure('parked_overdue_age_seconds', '> 20')), 't', 'outbox.metrics(): what the alert of parked events looks at');
is(sql(figure('oldest_pending_age_seconds', '> 20')), 't', 'and what the alert of a backlog does');
is(sql(q(SELECT detail FROM outbox.doctor() WHERE "check" = 'parked' AND detail ~ 'retried')),
	'0 events are being retried, 256 are due that never were refused, at least 10000 wait behind another one or a pause.', 'doctor(): nobody has refused them')
  or diag(sql('SELECT * FROM outbox.doctor()'));
my $first = sql('SELECT id FROM outbox_internal.parked ORDER BY created_at LIMIT 1');
is(sql("SELECT state || ' ' || attempts || ' ' || (next_try IS NULL) FROM outbox.status('$first')"), 'due 0 true', 'status(): it is due');
is(sql("SELECT state || ': ' || reason FROM outbox.status('$due')"), "blocked: waits behind event $first, which is due", 'and the last one waits for it');
is(sql(q(SELECT command || ' ' || route || ' ' || total || ' ' || total_estimated || ' ' || (since <= clock_timestamp() - interval '20 s') FROM outbox.pg_stat_progress_outbox)),
	'drain all 10256 true true', 'a drain, of so many at least') or diag(sql('SELECT * FROM outbox.pg_stat_progress_outbox'));
Outbox::Faults::release('parked.claim.after');

# --- the drain is seen until all is gone, and moves ---
my ($looks, $missed, $moved) = (0, 0, 0);
ok(wait_until(sub {
	my ($left, $drains, $done) = split / /, sql(q(SELECT (SELECT count(*) FROM outbox_internal.parked) || ' ' || count(*) || ' ' || coalesce(sum(p.done) FILTER (WHERE p.phase = 'sending'), 0) FROM outbox.pg_stat_progress_outbox p WHERE p.command = 'drain'));
	$looks++;
	$missed++ if $left > 0 && $drains != 1;
	$moved++ if $done > 0;
	return $left == 0;
}, 180), 'all goes');
is($missed, 0, "as long as something is left there is a drain, at $looks looks");
cmp_ok($moved, '>', 0, 'and it tells how many are done');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox.pg_stat_progress_outbox', '0', 60), 'then there is none');
ok(wait_idle($node), 'all is delivered');
is(sql(figure('oldest_pending_age_seconds', '')) . sql(figure('parked_overdue_age_seconds', '')), '00', 'and nothing waits');

# --- a delayed event whose key is paused when it is due has waited since then, not since it was emitted ---
sql(q(SELECT outbox.pause(route => 'all', aggregate_type => 'd', aggregate_id => '1', reason => 'test')));
my $delayed = sql(q(SELECT outbox.emit('d', 1, 'e', '{}'::jsonb, deliver_at => clock_timestamp() + interval '20 s')));
ok(wait_for_value($node, "SELECT state FROM outbox_internal.parked WHERE id = '$delayed'", 'blocked', 180), 'a delayed event is due, and its key is paused');
Outbox::Faults::let_pass('parked.claim.after');
sql(q(SELECT outbox.resume(route => 'all', aggregate_type => 'd', aggregate_id => '1')));
ok(wait_until(sub { at('parked.claim.after') }, 180), 'it is let go');
is(sql(q(SELECT l.overdue || ' ' || (l.delay > interval '0') || ' ' || (l.delay < clock_timestamp() - p.created_at - interval '19 s') FROM outbox.lag l, outbox_internal.parked p)), '1 true true', 'and waits since it was due')
  or diag(sql('SELECT l.*, p.created_at, p.due_at FROM outbox.lag l, outbox_internal.parked p'));
Outbox::Faults::release('parked.claim.after');
ok(wait_idle($node), 'it goes');
no_server_crashed($node);
done_testing();
