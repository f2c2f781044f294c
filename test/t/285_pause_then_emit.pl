# matrix: S3
# What is emitted after pause() has returned is held, also where a worker had begun its turn before and reads it in that turn.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('r'), lanes => 2);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

emit_counted($node, 't', ['a'], 1, 1);
ok(wait_idle($node), 'delivered');
foreach my $paused (q(aggregate_type => 't', aggregate_id => 'w'), q(topic => 'r'), '')
{
	my $what = $paused eq '' ? 'a route' : $paused =~ /topic/ ? 'a topic' : 'a key';
	my $before = $redis->xlen('r');
	Outbox::Faults::arm('window.start', 'wait');
	emit_counted($node, 't', ['a'], 2, 2);
	ok(Outbox::Faults::await_waiting('window.start'), "$what: a worker is about to look");
	sql("SELECT outbox.pause('r'" . ($paused eq '' ? '' : ", $paused") . ", reason => 'stop')");
	emit_counted($node, 't', ['w'], 1, 3);
	Outbox::Faults::release('window.start');
	ok(wait_for_value($node, "SELECT count(*) > 0 FROM outbox.status((SELECT id FROM outbox_internal.log ORDER BY created_at DESC LIMIT 1)) WHERE state IN ('blocked', 'paused')", 't', 20), "$what: what was emitted then is held");
	is($redis->xlen('r') - $before, $what eq 'a key' ? 1 : 0, "$what: none of it was sent");
	sql("SELECT outbox.resume('r'" . ($paused eq '' ? '' : ", $paused") . ')');
	ok(wait_until(sub { $redis->xlen('r') == $before + 4 }, 30), "$what: all of it is when it is resumed");
	ok(wait_idle($node), 'idle');
}
no_server_crashed($node);
done_testing();
