# A route is moved by seek() in the very moment in which a topic leaves its lane: the side lane does not keep the old
# position, whichever is first, and whatever isolation level
# the person's session has. All that seek() said comes again does.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
my @keys = qw(a b);
redis_route($node, $redis, 'r', topic => q('{aggregate_type}'), start => q('earliest'));

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub comes { my ($stream, $count, $what) = @_; return ok(wait_until(sub { $redis->xlen($stream) >= $count }, 30), $what) }

emit_counted($node, $_, \@keys, 1, 10) foreach qw(one two);
ok(wait_idle($node), 'all delivered');
my $seek = q{CALL outbox.seek('r', '-infinity', reason => 'again', dry_run => false)};

# The fork has been decided, by the old position, and is about to be written when the route is moved: the lane is the very
# worker's all the time, and stands elsewhere.
Outbox::Faults::arm('fork.before', 'wait');
sql(q{SELECT outbox.pause('r', topic => 'two', reason => 'leaves its lane')});
ok(Outbox::Faults::await_waiting('fork.before'), 'a topic is about to leave its lane');
my $owner = sql('SELECT owner FROM outbox_internal.lane');
is(sql($seek), '40|0', 'the route is moved to its beginning');
is(sql('SELECT owner FROM outbox_internal.lane'), $owner, 'its worker has the lane until it has let it go');
Outbox::Faults::release('fork.before');
comes('one', 40, 'the other topic comes again');
is($redis->xlen('two'), 20, 'the paused one does not');
sql(q{SELECT outbox.resume('r', topic => 'two')});
comes('two', 40, 'and does once it is resumed');
ok(wait_idle($node), 'idle');
is($redis->xlen($_), 40, "$_: each came twice") foreach qw(one two);

# The fork is written and not committed; the person sees the database as it was when his transaction began.
Outbox::Faults::arm('fork.uncommitted', 'wait');
sql(q{SELECT outbox.pause('r', topic => 'one', reason => 'leaves its lane')});
ok(Outbox::Faults::await_waiting('fork.uncommitted'), 'a topic is just leaving its lane');
my $person = $node->background_psql('postgres', on_error_stop => 0, timeout => 600);
$person->query_safe(q{SET default_transaction_isolation = 'repeatable read'});
my $pid = $person->query_safe('SELECT pg_backend_pid()');
$person->{stdin} .= "$seek;\n";
$person->{run}->pump_nb;
ok(wait_for_value($node, "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid", 'Lock', 20), 'seek() waits for it');
Outbox::Faults::release('fork.uncommitted');
ok(wait_for_value($node, "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid", 'Client', 20), 'and is done');
$person->quit;
is(sql(q{SELECT count(*) FROM outbox.audit WHERE action = 'seek'}), '2', 'without an error');
comes('two', 60, 'the other topic comes again');
is($redis->xlen('one'), 40, 'the paused one does not');
sql(q{SELECT outbox.resume('r', topic => 'one')});
comes('one', 60, 'and does once it is resumed');
ok(wait_idle($node), 'idle');
is($redis->xlen($_), 60, "$_: each came once more") foreach qw(one two);

no_server_crashed($node);
done_testing();
