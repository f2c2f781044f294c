# What people have given up stays given up when a route is moved back by seek(): skipped and discarded events are not sent
# again, whether there are one or thousands of them, with several lanes and a topic that has left its lane, moved twice,
# and back to before or behind them. What is parked at that moment is delivered from there, once. Whoever wants what was given up
# says so to replay(). And what was delivered from there goes again like everything else, also where the destination
# loses it after that.
# matrix: S6
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 2\n");
my $redis = Outbox::Redis->start;
my @keys = map { "k$_" } 1 .. 5;
redis_route($node, $redis, 'r', topic => q('{aggregate_type}'), lanes => 4, start => q('earliest'));

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub seek_to { my ($at, $dry) = @_; my ($out, $said) = ('', ''); my $status = $node->psql('postgres', "CALL outbox.seek('r', $at, dry_run => " . ($dry ? 'true' : 'false') . ')', stdout => \$out, stderr => \$said); diag($said) if $status; return ($out, $said) }
sub parked { return sql('SELECT count(*) FROM outbox_internal.parked') }
sub caught_up { return wait_for_value($node, 'SELECT sum(pending) FROM outbox.lag', '0', 60) } # a paused key is work for wait_until_idle()
sub moment { return q{'} . sql(q{SELECT max(created_at) + interval '1 microsecond' FROM outbox_internal.log}) . q{'} }
# How often each payload has arrived, of those of a stream.
sub arrived { my ($stream) = @_; my %times; $times{ $_->{payload} }++ foreach @{ $redis->entries($stream) }; return \%times }
sub came { my ($stream, $pattern) = @_; my $all = arrived($stream); my %seen; $seen{ $all->{$_} }++ foreach grep { /$pattern/ } keys %$all; return join ', ', map { "$seen{$_} events $_ times" } sort { $a <=> $b } keys %seen }
sub later { my ($type, $payload, $count) = @_; return sql("SELECT count(outbox.emit_text('$type', 'later' || n % 7, 'later', '$payload ' || n, deliver_at => now() + interval '1 day')) FROM generate_series(1, $count) n") }
# A person's decisions about what is parked.
sub skip { my ($pattern) = @_; return sql("SELECT count(outbox.skip(id, 'not wanted')) FROM outbox_internal.parked WHERE convert_from(payload, 'UTF8') LIKE '$pattern'") }
sub discard
{
	my ($pattern) = @_;
	sql("SET outbox.allow_loss = on; UPDATE outbox_internal.parked SET state = 'dead', due_at = NULL, error_class = 'message', error_code = 'TEST' WHERE convert_from(payload, 'UTF8') LIKE '$pattern'");
	my $given = sql(q{SELECT count(*) FROM outbox.dead_letter});
	sql(q{CALL outbox.discard_dead_letters(route => 'r', reason => 'nobody needs them', dry_run => false)});
	return $given;
}

emit_counted($node, $_, \@keys, 1, 20) foreach qw(one two);
later('one', 'skipped', 20);
later('two', 'discarded', 2000);
sql(q{SELECT outbox.pause('r', aggregate_type => 'one', aggregate_id => 'w', reason => 'waits')});
emit_counted($node, 'one', ['w'], 1, 10);
my $middle = moment();
emit_counted($node, $_, \@keys, 21, 30) foreach qw(one two);
later('one', 'skipped late', 1);
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '2031', 60), 'thousands of events are parked');
is(skip('skipped%'), '21', 'some are skipped');
is(discard('discarded%'), '2000', 'and thousands discarded');
ok(caught_up(), 'the lanes have read it all');
is(parked(), '10', 'ten wait');
is(came($_, '^k'), '150 events 1 times', "$_: each came once") foreach qw(one two);
my $skipped = sql(q{SELECT id FROM outbox_internal.log WHERE convert_from(payload, 'UTF8') = 'skipped 7'});
is(sql("SELECT state FROM outbox.status('$skipped')"), 'skipped', 'status() says so');

# Back to the beginning. A dry run says what it is going to be.
my ($out, $said) = seek_to(q{'-infinity'}, 1);
is($out, '300|0', 'seek() counts what was delivered, and nothing else');
like($said, qr/2021 that were skipped or discarded stay so/, 'and says of the others that they stay');
like($said, qr/include_given_up/, 'and how to have them sent');
is(sql(q{SELECT count(*) FROM outbox.audit WHERE action = 'seek'}), '0', 'which was a dry run');
# The other topic is away meanwhile.
sql(q{SELECT outbox.pause('r', topic => 'two', reason => 'leaves its lanes')});
($out) = seek_to(q{'-infinity'});
is($out, '300|0', 'the same when it is done');
ok(wait_until(sub { came('one', '^k') eq '150 events 2 times' }, 60), 'one topic comes again');
is(sql(q{SELECT count(*) FROM outbox.peek('r') WHERE event_type = 'later'}), '0', 'peek() shows nothing that will not go');
is(came('two', '.'), '150 events 1 times', 'the paused one does not');
sql(q{SELECT outbox.resume('r', topic => 'two')});
ok(wait_until(sub { came('two', '^k') eq '150 events 2 times' }, 60), 'and does once it is resumed');
ok(caught_up(), 'the lanes have read it all');
is(came($_, '^(skipped|discarded|w)'), '', "$_: nothing that was given up came, nor what waits") foreach qw(one two);
is(parked(), '10', 'what was parked is parked, and nothing else');
is(sql("SELECT state FROM outbox.status('$skipped')"), 'skipped', 'status() says what it said');

# What waited then is delivered from there, while the route goes back once more: once, whichever is first.
seek_to(q{'-infinity'});
sql(q{SELECT outbox.resume('r', aggregate_type => 'one', aggregate_id => 'w')});
ok(wait_until(sub { came('one', '^k') eq '150 events 3 times' && came('one', '^w') eq '10 events 1 times' }, 60), 'both come');
ok(wait_idle($node), 'idle');
is(came('one', '^w'), '10 events 1 times', 'what was parked came once');
is(by_key([ map { $_->{payload} } @{ $redis->entries('one') } ])->{w}, join(' ', 1 .. 10), 'in order');
is(came('one', '^skipped'), '', 'what was given up did not');

# It is delivered now, and goes again like everything else. Moved twice before anything goes: what the first move wanted is
# passed over by the second.
sql(q{SELECT outbox.pause('r', reason => 'a moment')});
is((seek_to(q{'-infinity'}))[0], '310|0', 'moved to the beginning, with what was delivered from where it was parked');
is((seek_to($middle))[0], '0|210', 'and from there to the middle');
sql(q{SELECT outbox.resume('r')});
ok(wait_until(sub { came('one', '^k') eq '100 events 3 times, 50 events 4 times' }, 60), 'what is younger comes again');
ok(wait_idle($node), 'idle');
is(came('one', '^w'), '10 events 1 times', 'what is older does not');
($out, $said) = seek_to($middle, 1);
is($out, '100|0', 'from the middle');
like($said, qr/1 that was skipped or discarded stays so/, 'one of those that were given up is behind it');
seek_to(q{'-infinity'});
ok(wait_until(sub { came('one', '^k') eq '100 events 4 times, 50 events 5 times' && came('one', '^w') eq '10 events 2 times' }, 60), 'from the beginning: all that was delivered, from wherever');
ok(wait_idle($node), 'idle');
is(came($_, '^(skipped|discarded)'), '', "$_: and still nothing that was given up") foreach qw(one two);

# Forward, and back over what was passed over.
sql(q{SELECT outbox.pause('r', reason => 'a moment')});
emit_counted($node, 'one', ['p'], 1, 5);
later('one', 'later skipped', 2);
seek_to(q{'infinity'});
emit_counted($node, 'one', ['p'], 6, 8);
sql(q{SELECT outbox.resume('r')});
ok(wait_idle($node), 'idle');
is(came('one', '^p'), '3 events 1 times', 'what was passed over did not come');
seek_to($middle);
ok(wait_until(sub { parked() == 2 }, 60), 'back: what was passed over is taken');
ok(wait_idle($node), 'idle');
is(came('one', '^p'), '5 events 1 times, 3 events 2 times', 'it comes for the first time');
is(skip('later skipped%'), '2', 'given up');
seek_to($middle);
ok(wait_idle($node), 'idle');
is(came('one', '^later'), '', 'and stays so');

# Whoever wants them says so.
is(sql(q{CALL outbox.replay(since => '-infinity', route => 'r', event_type => 'later')}) =~ s/^\|//r, '0', 'replay() leaves them alone, too');
is(sql(q{CALL outbox.replay(since => '-infinity', route => 'r', event_type => 'later', include_given_up => true)}) =~ s/^\|//r, '2023', 'unless it is told not to');
like(sql("CALL outbox.replay(ids => ARRAY['$skipped'::uuid], route => 'r', include_given_up => true, dry_run => false, reason => 'wanted after all')"), qr/\|1$/, 'one of them');
ok(wait_until(sub { came('one', '^skipped 7$') eq '1 events 1 times' }, 60), 'comes');
is(sql("SELECT string_agg(state || ' ' || replay, ', ' ORDER BY replay) FROM outbox.status('$skipped')"), 'skipped 0, delivered ' . sql('SELECT max(number) FROM outbox.replay'), 'status() says both');
is(sql(q{SELECT filter->>'include_given_up' FROM outbox.replay ORDER BY number DESC LIMIT 1}), 'true', 'outbox.replay says that it was meant');
no_server_crashed($node);
done_testing();
