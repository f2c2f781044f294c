# A consumer's database where outbox is preloaded and events are emitted, too, so that there is a keeper, which empties days of the inbox: by the earlier of this server's clock
# and the newest event that was received, as receive() does. This server's clock alone three weeks ahead, for so long that it is believed: no day goes, all that was handled is known,
# and what is new is taken. Where both are ahead, days go without anybody who receives. And by the retention that the database has by now, not by what it had when the keeper began.
# matrix: R95
use strict;
use warnings;

use File::Temp ();
use Outbox::Clock;
use Outbox::Test;
use Test::More;

my $clock = File::Temp::tempdir('outbox-clock.XXXXXX', TMPDIR => 1, CLEANUP => 1);
chmod 0755, $clock;
Outbox::Clock::prepare($clock);
my $node = Outbox::Clock::with(sub { new_node() });
sub sql { return $node->safe_psql('postgres', $_[0]) }

# An id of the producer, whose clock is this test's.
sub id { my ($days, $n) = @_; return sprintf('%012x-7000-8000-%012x', (time - 86400 * $days) * 1000, $n) =~ s/^(\w{8})(\w{4})/$1-$2/r }
sub kept_from { return sql('SELECT kept_from FROM outbox_internal.inbox_kept') }
# The keeper looks at once, and in the same transaction at the undated marks, which go by this server's clock.
sub keeper_turns
{
	my ($after) = @_;
	return wait_until(sub { $node->reload; sql("SELECT turned_at > to_timestamp($after) FROM outbox_internal.inbox_kept") eq 't' });
}

sql(q{CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'nowhere'); SELECT outbox.emit('saga', 1, 'x', '1')});
my ($old, $today) = (id(3, 1), id(0, 2));
sql("SELECT outbox.receive('c', '$old'), outbox.receive('c', '$today')");
my $from = kept_from();

sql(q{ALTER DATABASE postgres SET outbox.inbox_retention = '28d'; UPDATE outbox_internal.inbox_kept SET kept_from = kept_from - 10});
upkeep($node);
is(sql(qq{SELECT date '$from' - kept_from FROM outbox_internal.inbox_kept}), 10, 'a longer retention of the database: the keeper that is there drops nothing of it');
sql(q{ALTER DATABASE postgres RESET outbox.inbox_retention});
upkeep($node);
is(kept_from(), $from, 'and the days when it is taken back');

Outbox::Clock::believe_after(5);
Outbox::Clock::set(20 * 86400);
ok(keeper_turns(time + 10 * 86400), "this server's clock is three weeks ahead, and the keeper believes it");
is(kept_from(), $from, 'no day goes for that');
is(sql("SELECT outbox.receive('c', '$old'), outbox.receive('c', '$today'), outbox.receive('c', '" . id(0, 3) . "')"), 'f|f|t', 'what was handled is known, what is new is taken');

# An event that is as new as the clock: the days go, one in a round, though nobody receives any more.
sql("SELECT outbox.receive('d', '" . id(-20, 4) . "')");
ok(wait_until(sub { $node->reload; kept_from() eq sql(q{SELECT (now() AT TIME ZONE 'UTC')::date - 14}) }), 'with an event that is as new the keeper drops days');

done_testing();
