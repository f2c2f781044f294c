# The format of a route changes amid traffic: each event arrives whole, in one format or the other, once and in the order of its
# key; and what was scheduled, refused or held back before the change goes out in the format that the route has then.
# matrix: S7
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node();
redis_route($node, $redis, 'events', lanes => 2, topic => q('{aggregate_type}'));

# The format an entry is in, if all of it is there.
sub format_of
{
	my ($entry) = @_;
	my $fields = join ' ', sort grep { $_ ne '_entry' } keys %$entry;
	return {
		'aggregate_type created_at h:n id key payload type' => 'outbox',
		'key payload' => 'payload',
		'ce_aggregatetype ce_id ce_n ce_partitionkey ce_sequence ce_source ce_specversion ce_subject ce_time ce_type content-type data' => 'cloudevents',
		'content-type event' => 'cloudevents-json' }->{$fields} // "none: $fields";
}

sub number_of
{
	my ($entry) = @_;
	return ($entry->{payload} // $entry->{data} // ($entry->{event} =~ /"data":(.*)\}$/)[0]);
}

# --- amid traffic: each step emits, and changes the format while that is on its way ---
$node->safe_psql('postgres', q{
	CREATE PROCEDURE load(keys int, first int, last int) LANGUAGE plpgsql AS $$
	BEGIN
	  FOR i IN first .. last LOOP
	    PERFORM outbox.emit('load', k::text, 'e', to_jsonb(i), jsonb_build_object('n', i::text)) FROM generate_series(1, keys) k;
	    COMMIT;
	  END LOOP;
	END $$});
my ($keys, $steps, $each) = (8, 24, 30);
my $rounds = $steps * $each;
my @order = ('payload', 'cloudevents', 'cloudevents-json', 'outbox');
foreach my $step (1 .. $steps)
{
	$node->safe_psql('postgres', 'CALL load(' . join(', ', $keys, ($step - 1) * $each + 1, $step * $each) . ')');
	$node->safe_psql('postgres', "SELECT outbox.alter_route('events', format => '" . $order[ $step % 4 ] . "')");
	# Never far behind, or the last format would be that of all.
	wait_until(sub { $redis->xlen('load') >= ($step - 1) * $each * $keys }, 60);
}
ok(wait_idle($node, 120), 'all is delivered');
my (%numbers, %formats);
foreach my $entry (@{ $redis->entries('load') })
{
	$formats{ format_of($entry) }++;
	my $key = $entry->{key} // $entry->{ce_partitionkey} // ($entry->{event} =~ /"partitionkey":"(\d+)"/)[0];
	push @{ $numbers{$key} }, number_of($entry);
}
is(join(', ', sort keys %formats), 'cloudevents, cloudevents-json, outbox, payload', 'each event is whole, in one of four formats');
is(join(' ', @{ $numbers{$_} // [] }) eq join(' ', 1 .. $rounds), 1, "key $_: every event once, in order") foreach 1 .. $keys;
is($node->safe_psql('postgres', q{SELECT count(*) FROM outbox_internal.parked}), '0', 'nothing was parked');
is($node->safe_psql('postgres', q{SELECT count(*) FROM outbox.audit WHERE action = 'alter_route' AND detail -> 'changed' ? 'format'}),
	$steps, 'the audit has every change');

# --- what is parked, and what waits behind a pause ---
$node->safe_psql('postgres', q{
	SELECT outbox.alter_route('events', format => 'outbox');
	SELECT outbox.pause('events', topic => 'paused', reason => 'a side lane');
	SELECT outbox.emit('later', k::text, 'e', '1', '{"n": "1"}', deliver_at => now() + interval '1 hour') FROM generate_series(1, 65) k;
	SELECT outbox.emit('paused', k::text, 'e', '1', '{"n": "1"}') FROM generate_series(1, 65) k;
	SELECT outbox.emit('load', 'beside', 'e', '1', '{"n": "1"}')});
$redis->command('SET', 'stuck', 'no stream');
$node->safe_psql('postgres', q{SELECT outbox.emit('stuck', k::text, 'e', '1', '{"n": "1"}') FROM generate_series(1, 65) k});
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE aggregate_type = 'later'}, '65', 60), 'scheduled events are parked');
ok(wait_for_value($node, q{SELECT count(*) >= 2 FROM outbox_internal.side_lane}, 't', 60), 'topics have left their lanes') or diag($node->safe_psql('postgres', 'SELECT * FROM outbox.lag'));
$node->safe_psql('postgres', q{SELECT outbox.alter_route('events', format => 'cloudevents')});
$node->safe_psql('postgres', q{SELECT outbox.emit(t, k::text, 'e', '2', '{"n": "2"}') FROM generate_series(1, 65) k, unnest('{later,paused,stuck}'::text[]) t});
$redis->command('DEL', 'stuck');
$node->safe_psql('postgres', q{SELECT outbox.retry(id) FROM outbox_internal.parked WHERE aggregate_type = 'later' AND state = 'scheduled'});
$node->safe_psql('postgres', q{SELECT outbox.resume('events', topic => 'paused')});
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 90), 'nothing is parked any more');
ok(wait_idle($node, 90), 'and all is delivered');
foreach my $topic ('later', 'paused', 'stuck')
{
	my %got;
	push @{ $got{ $_->{ce_partitionkey} // '?' } }, $_->{data} foreach @{ $redis->entries($topic) };
	is(join(',', map { format_of($_) eq 'cloudevents' ? () : format_of($_) } @{ $redis->entries($topic) }), '', "$topic: in the present format");
	is(scalar(grep { join(' ', sort @{ $got{$_} // [] }) eq '1 2' } 1 .. 65), 65, "$topic: both events of each key, once");
	is(scalar(grep { join(' ', @{ $got{$_} // [] }) eq '1 2' } 1 .. 65), 65, "$topic: in their order") if $topic ne 'later';
}
no_server_crashed($node);
done_testing();
