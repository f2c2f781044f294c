# A replay that is interrupted goes on with what it was begun with: what was parked then, and was delivered or given up since, is no
# part of it, so that no key is sent without its beginning; and it says so.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('r'));
redis_route($node, $redis, 'again', topic => q('again'), aggregate_types => q('{nothing}'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub emit { my ($from, $to) = @_; return sql("SELECT count(outbox.emit_text('t', (i % 20)::text, 'e', i::text)) FROM generate_series($from, $to) i") }
sub pause { my ($act, $key) = @_; return sql("SELECT outbox.$act('r', aggregate_type => 't', aggregate_id => '$key'" . ($act eq 'pause' ? ", reason => 'the test')" : ')')) }
sub again { my ($key) = @_; return [ sort { $a <=> $b } grep { $_ % 20 == $key } map { $_->{payload} } @{ $redis->entries('again') } ] }

# Of keys 7 and 9 nothing is delivered, of 8 the first half.
pause('pause', $_) foreach 7, 9;
emit(1, 1000);
ok(wait_until(sub { $redis->xlen('r') == 900 }, 60), 'all but two keys');
pause('pause', 8);
emit(1001, 2000);
ok(wait_until(sub { $redis->xlen('r') == 1750 }, 60), 'all but three');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', 250, 60), 'of which the rest is parked');
ok(wait_for_value($node, q(CALL outbox.replay(since => '-infinity', route => 'r', include_given_up => true)), '|1750', 60), 'and the lane has saved so much');

# It ends when it has copied 500.
sql(q(SET outbox.allow_loss = on; CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.replay <> 0 AND (SELECT copied FROM outbox.replay WHERE number = NEW.replay) > 0 THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW; END $$;
  CREATE TRIGGER refuse BEFORE INSERT ON outbox_internal.parked FOR EACH ROW EXECUTE FUNCTION public.refuse()));
my (undef, undef, $error) = $node->psql('postgres',
	q(CALL outbox.replay(since => '-infinity', route => 'r', to_route => 'again', per_second => NULL, dry_run => false, include_given_up => true)));
like($error, qr/sending 1750 events .*no/s, 'it is interrupted');
sql(q(SET outbox.allow_loss = on; DROP TRIGGER refuse ON outbox_internal.parked));
ok(wait_for_value($node, 'SELECT state FROM outbox.replay', 'interrupted', 60), 'as its row says');
is(sql('SELECT matched, copied FROM outbox.replay'), '1750|500', 'in the middle');

pause('resume', $_) foreach 7, 8;
ok(wait_until(sub { $redis->xlen('r') == 1900 }, 60), 'two keys are delivered meanwhile');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked WHERE replay = 0', 100, 60), 'and parked no more');

# Behind event 556, the last one that was copied: 72 of key 7, and the second half of 8.
my $left = qr/left alone: 122 events that the route has delivered, or people gave up, since the replay was begun/;
(undef, my $rest, $error) = $node->psql('postgres', 'CALL outbox.replay(number => 1)');
is($rest, '1|1250', 'a dry run counts what is left of it');
like($error, $left, 'and what is not');
(undef, $rest, $error) = $node->psql('postgres', 'CALL outbox.replay(number => 1, dry_run => false)');
is($rest, '1|1250', 'it goes on');
like($error, $left, 'and tells');
is(sql('SELECT state, matched, copied FROM outbox.replay'), 'scheduled|1750|1750', 'with the number that it had');
ok(wait_until(sub { $redis->xlen('again') == 1750 }, 60), 'all of it arrives');
is_deeply(again(7), [], 'of a key that was not delivered nothing');
is_deeply(again(8), [ map { 20 * $_ + 8 } 0 .. 49 ], 'of one that was delivered in part just that');
is_deeply(again(6), [ map { 20 * $_ + 6 } 0 .. 99 ], 'of the others all');
no_server_crashed($node);
done_testing();
