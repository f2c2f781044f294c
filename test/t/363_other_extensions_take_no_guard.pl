# A trigger of outbox that somebody has made depend on another extension does not go with that one, while there are undelivered
# events; where it went, doctor() names it, with what to type.
# matrix: C19
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub refusal
{
	my ($status, $out, $err) = $node->psql('postgres', $_[0]);
	return $status == 0 ? 'done' : $err;
}

my $other = sql(q(SELECT name FROM pg_available_extensions WHERE name IN ('pg_trgm', 'citext', 'btree_gist', 'hstore') LIMIT 1));
plan skip_all => 'no extension of contrib is installed' if $other eq '';
sql(q(CREATE SERVER nul FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', 'nul'); SELECT outbox.pause('r', reason => 'test')));
sql(q(SELECT outbox.emit('order', 7, 'x', '{}')));
my $day = sql('SELECT tableoid::regclass FROM outbox_internal.log');
sql("CREATE EXTENSION $other");

my $bind = join '; ', map { "ALTER TRIGGER $_ ON $day DEPENDS ON EXTENSION $other" } qw(log_loss log_loss_deleted);
like(refusal($bind), qr/cannot add a dependency to a trigger of \Q$day\E/, 'ALTER TRIGGER ... DEPENDS ON EXTENSION is refused');
sql("SET outbox.allow_loss = on; $bind");
like(refusal("DROP EXTENSION $other"), qr/cannot drop a trigger of \Q$day\E because there are undelivered events/, 'and so is DROP EXTENSION of what it was let depend on');
like(refusal("DROP EXTENSION $other CASCADE"), qr/cannot drop a trigger of/, 'with CASCADE, too');
like(refusal("TRUNCATE $day"), qr/undelivered/, 'the guard is there');
is(sql('SELECT pending FROM outbox.lag'), 1, 'and the event waits');

# --- gone all the same, or replaced ---
my $guards = q(SELECT detail FROM outbox.doctor() WHERE "check" = 'guards' AND status <> 'ok' ORDER BY detail);
is(sql($guards), '', 'doctor() misses none');
sql("SET outbox.allow_loss = on; DROP EXTENSION $other");
is(sql($guards), join("\n", map { "Trigger $_ of $day is not there any more: what it guards goes without a word." } qw(log_loss log_loss_deleted)), 'it names those that are gone');
sql(q(SET outbox.allow_loss = on; CREATE OR REPLACE TRIGGER no_loss BEFORE DELETE ON outbox_internal.lane FOR EACH ROW WHEN (false) EXECUTE FUNCTION outbox_internal.refuse_loss()));
sql(q(SET outbox.allow_loss = on; CREATE OR REPLACE TRIGGER no_change BEFORE UPDATE OF lane ON outbox_internal.lane FOR EACH STATEMENT EXECUTE FUNCTION outbox_internal.refuse_change()));
sql(q(SET outbox.allow_loss = on; DROP TRIGGER event_refuse ON outbox.event));
sql(q(SET outbox.allow_loss = on; DROP TRIGGER log_guard ON outbox_internal.log));
like(sql($guards), qr/Trigger \Q$_\E is not/, "$_, too")
  foreach 'no_loss of outbox_internal.lane', 'no_change of outbox_internal.lane', 'event_refuse of outbox.event', 'log_guard of outbox_internal.log';
my @hints = split /\n/, sql(q(SELECT hint FROM outbox.doctor() WHERE "check" = 'guards' AND detail ~ '^Trigger'));
is(scalar @hints, 6, 'each has a hint');
sql($_) foreach @hints;
ok(wait_for_value($node, $guards, ''), 'with what to type');
like(refusal("TRUNCATE $day"), qr/undelivered/, 'and they guard again');
no_server_crashed($node);
done_testing();
