# An event comes with a change of its route in one transaction, and a worker reads it before it has heard of the change: what
# the older options refuse is not refused; they are read again first. Sixty-five of them, one that is tried again from where it is
# parked, and what the newer options refuse as well.
# matrix: S2
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(conf => "outbox.workers = 1\noutbox.poll_interval = 100ms\n");
redis_route($node, $redis, 'r', topic => q('{aggregate_type}'), options => q('{"topics_known": ["one"]}'), max_attempts => 1);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub said { my ($type, $text) = @_; return "SELECT outbox.emit_text('$type', 'k', 'said', '$text');" }
sub known { my (@topics) = @_; return "SELECT outbox.alter_route('r', options => '{\"topics_known\": [" . join(', ', map { "\"$_\"" } @topics) . ']}\');' }

# A session commits, its transaction is visible, and the workers have not heard of it.
sub untold
{
	my ($statements) = @_;
	Outbox::Faults::arm('config.committed', 'wait');
	my $session = $node->background_psql('postgres', on_error_stop => 0, timeout => 600);
	$session->{stdin} .= "BEGIN; $statements COMMIT;\n";
	$session->{run}->pump_nb;
	ok(Outbox::Faults::await_waiting('config.committed'), 'committed, and nobody knows');
	return $session;
}
sub told { my ($session) = @_; Outbox::Faults::release('config.committed'); $session->quit; return }

sql(said('one', 'first'));
ok(wait_idle($node), 'idle');
my $session = untold(known('one', 'two') . said('two', 'new') . join '', map { said('two', "n$_") } 1 .. 64);
ok(wait_until(sub { $redis->xlen('two') == 65 }, 60), 'all of it goes, by the options that it was emitted under');
is(sql('SELECT count(*) FROM outbox.dead_letter'), '0', 'nothing is a dead letter');
told($session);

# What the newer options refuse, too, is refused, and its neighbours go.
sql(q{SELECT outbox.pause('r', reason => 'a moment')});
sql(said('two', 'late') . said('one', 'well'));
sql(known('one'));
sql(q{SELECT outbox.resume('r')});
ok(wait_for_value($node, 'SELECT error_code FROM outbox.dead_letter', 'TOPIC_NOT_KNOWN', 60), 'a topic that is known no more');
ok(wait_until(sub { $redis->xlen('one') == 2 }, 60), 'its neighbours go');
is($redis->xlen('two'), 65, 'it does not');

# Tried again by the very transaction that has the route know its topic.
$session = untold(known('one', 'two') . 'SELECT outbox.retry(id) FROM outbox.dead_letter;');
wait_until(sub { $redis->xlen('two') == 66 || sql('SELECT max(attempts) FROM outbox_internal.parked') > 1 }, 3); # whoever finds it before he is told
told($session);
ok(wait_until(sub { $redis->xlen('two') == 66 }, 60), 'it goes');
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'and is parked no more');
ok(wait_idle($node), 'idle');
no_server_crashed($node);
done_testing();
